/* Randomised response: each report is the truth or a made-up size, and their mean still tells. */
fedstasExplorer.add("coin", (tools, data) => {
  "use strict";
  const { sum, truth, generator, number, slider, buttons, plane, key, frame } = tools;
  const clip = (size, cap) => Math.min(Math.max(size, 1), cap - 1);

  function deviation(size, cap, alpha, many) {
    const off = clip(size, cap) - cap / 2, fake = (cap * (cap - 2)) / 12;
    return Math.sqrt(((1 - alpha) * fake + alpha * (1 - alpha) * off * off) / many) / alpha;
  }

  /* `flips` are pairs: a number in [0, 1) that decides, and the size that is told if it is not below alpha. */
  function coin(size, cap, epsilon, flips) {
    const alpha = truth(epsilon, cap);
    const reports = flips.map(([u, fake]) => (u < alpha ? clip(size, cap) : fake));
    const mean = (sum(reports) / reports.length - ((1 - alpha) * cap) / 2) / alpha;
    return { alpha, reports, mean, sd: deviation(size, cap, alpha, reports.length) };
  }

  function build(root) {
    const { controls, figure, told } = frame(root), cap = data.cap;
    let random, running, true_ones, total, last;
    key(controls, [["reading", "the estimate so far"], ["law", "where 95 % of estimates lie"], ["zero", "the true size"]]);
    const size = slider(controls, "true size of the client", 1, cap - 1, 1, data.size, String, restart);
    const epsilon = slider(controls, "\u03b5 of one report", 0.5, 8, 0.5, data.epsilon,
      (v) => v.toFixed(1) + "  (true with \u03b1 = " + truth(v, cap).toFixed(2) + ")", restart);
    buttons(controls, [["Flip once", () => flip(1)], ["Flip 100 times", () => flip(100)], ["Start again", restart]]);

    function reset() {
      random = generator(1); running = []; true_ones = 0; total = 0; last = null;
    }

    function restart() { reset(); update(); }

    function flip(times) {
      for (let k = 0; k < times && running.length < 5000; k += 1) {
        const alpha = truth(epsilon.get(), cap), told_truth = random() < alpha, n = size.get();
        const fake = 1 + Math.floor(random() * (cap - 1));
        last = told_truth ? n : fake;
        true_ones += told_truth ? 1 : 0;
        total += last;
        running.push((total / (running.length + 1) - ((1 - alpha) * cap) / 2) / alpha);
      }
      update();
    }

    function update() {
      const n = size.get(), alpha = truth(epsilon.get(), cap), many = running.length, far = Math.max(20, many);
      const wide = (j) => 1.96 * deviation(n, cap, alpha, j), room = 2.2 * wide(Math.max(4, far / 12));
      const clamp = (v) => Math.min(n + room, Math.max(n - room, v));
      const estimate = many ? running[many - 1] : null;
      const p = plane(figure, many ? `Estimated size after ${many} reports: ${number(estimate, 1)}; the true size is ${n}` : `Estimated size over reports: none yet; the true size is ${n}`,
        [0, far], [n - room, n + room], { x: "reports of the client", y: "estimated size", left: 52 });
      const steps = Array.from({ length: 80 }, (_, k) => 1 + ((far - 1) * k) / 79);
      p.path([...steps.map((j) => [j, clamp(n + wide(j))]), ...steps.reverse().map((j) => [j, clamp(n - wide(j))])], "law", true);
      p.line(p.left, p.py(n), p.width - p.right, p.py(n), "mark zero");
      if (many > 1) p.path(running.map((v, j) => [j + 1, clamp(v)]), "curve reading");
      else if (many) p.parts.push(`<circle class="reading" cx="${p.px(1)}" cy="${p.py(clamp(estimate))}" r="4"/>`);
      p.finish();
      told.textContent = many
        ? `The last report said ${last}. Of ${number(many, 0)} report${many > 1 ? "s" : ""}, ${number(true_ones, 0)} told the truth, and only the client knows which. `
          + `Together they say ${number(estimate, 1)}, give or take ${number(wide(many), 1)}; the true size is ${n}.`
        : `Each report is the true size with probability ${alpha.toFixed(2)}, and otherwise any size from 1 to ${cap - 1}. Flip the coin.`;
    }
    reset();
    return update;
  }
  return { formulas: { coin }, build };
});
