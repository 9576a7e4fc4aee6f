/* How many examples are there? The exact law of the estimated total. */
fedstasExplorer.add("estimate", (tools, data) => {
  "use strict";
  const { truth, number, slider, plane, key, frame } = tools;

  /* The exact law of the sum of m reports: each step adds a uniform part (a sliding sum) and a
     point at the clipped size. */
  function law(size, cap, m, alpha) {
    const clipped = Math.min(Math.max(size, 1), cap - 1), fake = (1 - alpha) / (cap - 1);
    let pmf = new Float64Array([1]);
    for (let k = 0; k < m; k += 1) {
      const next = new Float64Array(pmf.length + cap - 2);
      let window = 0;
      for (let i = 0; i < next.length; i += 1) {
        if (i < pmf.length) window += pmf[i];
        if (i >= cap - 1) window -= pmf[i - cap + 1];
        next[i] = fake * Math.max(window, 0);
      }
      for (let i = 0; i < pmf.length; i += 1) next[i + clipped - 1] += alpha * pmf[i];
      pmf = next;
    }
    return pmf;
  }

  function estimate(size, cap, epsilon, m) {
    const alpha = truth(epsilon, cap), pmf = law(size, cap, m, alpha);
    const shift = ((1 - alpha) * cap * m) / 2, value = (i) => (m + i - shift) / alpha;
    let mean = 0, second = 0, below = 0, rate = 0;
    pmf.forEach((p, i) => { mean += p * value(i); });
    pmf.forEach((p, i) => {
      const v = value(i);
      second += p * (v - mean) * (v - mean);
      if (v <= 0) below += p;
      rate += p * Math.min(1, (size * m) / 10 / Math.max(v, 1));
    });
    const values = [], chances = [];
    for (let k = 0; k < 7; k += 1) {
      const i = Math.floor((k * (pmf.length - 1)) / 6);
      values.push(value(i));
      chances.push(pmf[i]);
    }
    const found = { alpha, mean, sd: Math.sqrt(second), not_positive: below, rate, values, chances };
    Object.defineProperty(found, "law", { value: { pmf, value } });
    return found;
  }

  function estimatePart(root) {
    const { controls, figure, told } = frame(root), start = data;
    key(controls, [["law", "its exact distribution"], ["zero", "0"], ["one", "clipped total"], ["two", "true total"]]);
    const size = slider(controls, "examples of each client, n\u2096", 1, 1000, 1, start.size, String, update);
    const cap = slider(controls, "size cap, M", 3, 1001, 1, start.cap, String, update);
    const epsilon = slider(controls, "\u03b5 of one report", 0.1, 10, 0.1, start.epsilon,
      (v) => v.toFixed(1) + "  (\u03b1 = " + truth(v, cap.get()).toFixed(4) + ")", update);
    const m = slider(controls, "reports, m", 1, 100, 1, start.m, String, update);

    function update() {
      epsilon.told();
      const n = size.get(), top = cap.get(), many = m.get();
      const found = estimate(n, top, epsilon.get(), many), { pmf, value } = found.law;
      const total = n * many, clipped = Math.min(n, top - 1) * many;
      const low = Math.min(0, found.mean - 4 * found.sd, value(pmf.length - 1));
      const high = Math.max(total, found.mean + 4 * found.sd);
      // As many points of the law in each bin, or equal chances would look like steps.
      const gap = 1 / found.alpha, room = (high - low) * 0.04 || 1;
      const each = Math.max(1, Math.ceil((high - low + 2 * room) / 160 / gap)), wide = each * gap;
      const first = Math.floor((low - room - value(0)) / wide), base = value(0) + (first - 0.5 / each) * wide;
      const bins = Math.max(1, Math.ceil((high + room - base) / wide)), edge = (k) => base + k * wide;
      const mass = new Float64Array(bins);
      pmf.forEach((p, i) => {
        const k = Math.floor(i / each) - first;
        if (k >= 0 && k < bins) mass[k] += p;
      });
      const peak = Math.max(...mass);
      const words = `Distribution of the estimate: mean ${number(found.mean, 0)}, standard deviation ${number(found.sd, 0)}, true total ${number(total, 0)}`;
      const p = plane(figure, words, [edge(0), edge(bins)], [0, peak * 1.15],
        { ticksY: false, left: 8, x: "estimate of the total" });
      const points = [[edge(0), 0]];
      mass.forEach((v, k) => points.push([edge(k), v], [edge(k + 1), v]));
      points.push([edge(bins), 0]);
      p.path(points, "law", true);
      [[0, "zero"], [clipped, "one"], [total, "two"]].forEach(([v, kind]) =>
        p.line(p.px(v), p.top, p.px(v), p.height - p.bottom, "mark " + kind));
      p.finish();
      const root2 = Math.hypot(found.sd, found.mean - total) / total;
      told.textContent = `The estimate has the mean ${number(found.mean, 0)} where ${number(total, 0)} is true, `
        + `and the standard deviation ${number(found.sd, 0)}: its root mean squared error is ${number(100 * root2, root2 < 0.1 ? 1 : 0)} % of the total. `
        + `It is not positive in ${number(100 * found.not_positive, 2)} % of the rounds. `
        + `Where a tenth is requested, the guarded rate is ${found.rate.toFixed(3)} on average.`
        + (top - 1 < n ? ` Every true answer is ${top - 1}: M clips all sizes.` : "");
    }
    return update;
  }

  return { formulas: { estimate }, build: estimatePart };
});
