/* What do the reports cost? */
fedstasExplorer.add("privacy", (tools, data) => {
  "use strict";
  const { truth, number, slider, make, plane, key, frame } = tools;

  /* The law of D, reports equal to one size less reports equal to the other, after j reports. */
  function composed(epsilon, cap, j, delta) {
    if (delta === 0) return j * epsilon;
    const alpha = truth(epsilon, cap), miss = (1 - alpha) / (cap - 1);
    const up = alpha + miss, stay = Math.max(0, 1 - up - miss);
    let ways = new Float64Array([1]);
    for (let k = 0; k < j; k += 1) {
      const next = new Float64Array(ways.length + 2);
      ways.forEach((p, i) => {
        next[i] += miss * p;
        next[i + 1] += stay * p;
        next[i + 2] += up * p;
      });
      ways = next;
    }
    const step = Math.exp(-epsilon);
    let tail = 0, weighted = 0;
    for (let d = j; d >= -j; d -= 1) {
      tail += ways[d + j];
      weighted = ways[d + j] + weighted * step;
      const y = (tail - delta) / weighted; // in units of exp(d epsilon)
      if (y >= step) return Math.max(0, d * epsilon + Math.log(y));
    }
    return 0;
  }

  function privacyPart(root) {
    const { controls, figure, told } = frame(root), start = data;
    const deltas = [0, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2];
    key(controls, [["one", "composed \u03b5, \u03b4 = 0"], ["two", "composed \u03b5 at \u03b4"], ["reading", "size read off (per cent)"]]);
    const at = (list) => (v) => String(list[v]);
    const e = slider(controls, "\u03b5 of one report", 0, data.epsilons.length - 1, 1, data.epsilons.indexOf(start.epsilon), at(data.epsilons), update);
    const cap = slider(controls, "size cap, M", 0, data.caps.length - 1, 1, data.caps.indexOf(start.cap), at(data.caps), update);
    const j = slider(controls, "fresh reports of one client", 1, start.rounds, 1, 10, String, update);
    const delta = slider(controls, "\u03b4", 0, deltas.length - 1, 1, deltas.indexOf(start.delta), at(deltas), update);
    const second = make("div", { class: "explorer-plot" }, root);
    root.insertBefore(second, told);

    function update() {
      const epsilon = data.epsilons[e.get()], top = data.caps[cap.get()], many = j.get(), d = deltas[delta.get()];
      const here = composed(epsilon, top, many, d), plain = many * epsilon;
      const p = plane(figure, `Composed epsilon over reports; after ${many} reports ${number(plain, 1)} at delta 0, ${number(here, 1)} at delta ${d}`,
        [0, start.rounds], [0, start.rounds * epsilon], { x: "fresh reports", y: "composed \u03b5" });
      const points = [[0, 0]];
      for (let k = 1; k <= start.rounds; k += 2) points.push([k, composed(epsilon, top, k, d)]);
      p.path([[0, 0], [start.rounds, start.rounds * epsilon]], "curve one");
      p.path(points, "curve two");
      p.line(p.px(many), p.top, p.px(many), p.height - p.bottom, "mark zero");
      p.finish();
      const read = data.attack[e.get()][cap.get()], last = read.length - 1;
      const chance = read[Math.min(many, last)];
      const q = plane(second, `Chance that the most frequent report is the size: ${number(100 * chance, 0)} per cent after ${Math.min(many, last)} reports`,
        [0, last], [0, 100], { x: "fresh reports", y: "size read off (%)" });
      q.path(read.map((v, k) => [k, 100 * v]), "curve reading");
      q.line(q.px(Math.min(many, last)), q.top, q.px(Math.min(many, last)), q.height - q.bottom, "mark zero");
      q.finish();
      told.textContent = `${many} fresh report${many > 1 ? "s" : ""} of \u03b5 = ${epsilon} cost${many > 1 ? "" : "s"} \u03b5 = ${number(plain, 1)}`
        + (d > 0 ? `, or ${number(here, 1)} if \u03b4 = ${d} is allowed.` : ".")
        + ` The most frequent answer is the true (clipped) size with a probability ${chance < 0.995 ? `of ${number(100 * chance, 0)}` : "above 99"} %`
        + (many > last ? ` already after ${last} reports.` : ".")
        + " One memoised report costs " + epsilon + ", however many rounds there are.";
    }
    return update;
  }

  return { formulas: { composed }, build: privacyPart };
});
