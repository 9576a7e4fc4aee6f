/* Bias does not average out: rounds of one stratum, drawn by norm, as written and corrected. */
fedstasExplorer.add("bias", (tools, data) => {
  "use strict";
  const { sum, generator, pick, number, slider, buttons, plane, key, frame } = tools;

  /* m distinct clients one after another, by `norms`; `visit(sample, chance)` is told every outcome. */
  function outcomes(norms, m, visit, sample = [], chance = 1) {
    if (sample.length === m) { visit(sample, chance); return; }
    const left = norms.map((_, k) => k).filter((k) => !sample.includes(k)), all = sum(left.map((k) => norms[k]));
    left.forEach((k) => { if (norms[k] > 0) outcomes(norms, m, visit, [...sample, k], (chance * norms[k]) / all); });
  }

  /* Exact mean and standard deviation of one round, of the plain mean of distinct draws and of draws with
     replacement that are divided by their probability; and the mean over all clients, their target. */
  function bias(values, norms, m) {
    const N = values.length, target = sum(values) / N, all = sum(norms);
    let mean = 0, square = 0;
    outcomes(norms, m, (sample, chance) => {
      const value = sum(sample.map((k) => values[k])) / m;
      mean += chance * value;
      square += chance * value * value;
    });
    const second = sum(values.map((v, k) => (norms[k] > 0 ? ((v / N) * (v / N) * all) / norms[k] : 0)));
    return {
      target, written: mean, written_sd: Math.sqrt(Math.max(0, square - mean * mean)),
      corrected: target, corrected_sd: Math.sqrt(Math.max(0, second - target * target) / m),
    };
  }

  /* One round of each: two numbers. */
  function round(values, norms, m, random) {
    const N = values.length, everyone = values.map((_, k) => k), all = sum(norms);
    let left = everyone, written = 0, corrected = 0;
    for (let j = 0; j < m; j += 1) {
      const k = pick(left, norms, random), other = pick(everyone, norms, random);
      left = left.filter((i) => i !== k);
      written += values[k] / m;
      corrected += (values[other] * all) / (N * norms[other] * m);
    }
    return [written, corrected];
  }

  function build(root) {
    const { controls, figure, told } = frame(root), { values, norms } = data;
    let random, sums, path;
    key(controls, [["written", "as written: mean of the drawn"], ["should", "corrected: divided by probability"], ["zero", "the target"]]);
    const m = slider(controls, "drawn in a round, m", 1, values.length - 1, 1, data.m, String, restart);
    buttons(controls, [["Draw a round", () => play(1)], ["Draw 100 rounds", () => play(100)], ["Start again", restart]]);

    function reset() { random = generator(7); sums = [0, 0]; path = []; }

    function restart() { reset(); update(); }

    function play(times) {
      for (let k = 0; k < times && path.length < 5000; k += 1) {
        const found = round(values, norms, m.get(), random);
        sums = sums.map((s, i) => s + found[i]);
        path.push(sums.map((s) => s / (path.length + 1)));
      }
      update();
    }

    function update() {
      const exact = bias(values, norms, m.get()), many = path.length, far = Math.max(20, many);
      const low = exact.target - 1.5, high = Math.max(exact.written, exact.target) + 1.5;
      const clamp = (v) => Math.min(high, Math.max(low, v)), now = many ? path[many - 1] : null;
      const words = many ? `after ${many} rounds as written ${number(now[0], 2)}, corrected ${number(now[1], 2)}` : "no round yet";
      const p = plane(figure, `Average update over rounds; ${words}; the target is ${number(exact.target, 2)}`,
        [0, far], [low, high], { x: "rounds", y: "average update so far" });
      p.line(p.left, p.py(exact.target), p.width - p.right, p.py(exact.target), "mark zero");
      ["written", "should"].forEach((kind, i) => {
        if (many > 1) p.path(path.map((v, t) => [t + 1, clamp(v[i])]), "curve " + kind);
        else if (many) p.parts.push(`<circle class="${kind}" cx="${p.px(1)}" cy="${p.py(clamp(now[i]))}" r="4"/>`);
      });
      p.finish();
      told.textContent = (many
        ? `After ${number(many, 0)} round${many > 1 ? "s" : ""} the average is ${number(now[0], 2)} as written and ${number(now[1], 2)} corrected. `
        : "Six clients would move the model by " + values.map((v) => number(v, 1)).join(", ") + ". ")
        + `Together the six clients move the model by ${number(exact.target, 2)}. `
        + `As written, ever more rounds lead to ${number(exact.written, 2)}; corrected, to ${number(exact.corrected, 2)}.`;
    }
    reset();
    return update;
  }
  return { formulas: { bias }, build };
});
