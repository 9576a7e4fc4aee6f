/* Strata and seats on a map of clients: the strata are the package's, seats and chances are computed here. */
fedstasExplorer.add("strata", (tools, data) => {
  "use strict";
  const { sum, optimal, generator, make, number, slider, buttons, plane, frame } = tools;
  const N = data.points.length, letter = (h) => String.fromCharCode(65 + h);

  /* Chance of each client to be among m successive draws (theory.successive_inclusion): client k arrives
     at an exponential time of rate p_k, and is in if fewer than m others came before. */
  function inclusion(norms, m) {
    if (m >= norms.length) return norms.map(() => 1);
    const all = sum(norms), p = norms.map((v) => v / all), end = Math.log(60 / Math.min(...p)), step = 0.05;
    const found = p.map(() => 0), count = Math.ceil((end + 45) / step);
    for (let i = 0; i < count; i += 1) {
      const t = Math.exp(-45 + step * i), came = p.map((q) => -Math.expm1(-q * t));
      p.forEach((own, k) => {
        const before = new Float64Array(m);
        before[0] = 1;
        came.forEach((q, other) => {
          if (other === k) return;
          for (let j = m - 1; j > 0; j -= 1) before[j] += q * (before[j - 1] - before[j]);
          before[0] *= 1 - q;
        });
        found[k] += step * own * t * Math.exp(-own * t) * sum(Array.from(before));
      });
    }
    return found;
  }

  function onMap(H, m) {
    const labels = data.labels[H - 1], strata = Array.from({ length: Math.max(...labels) + 1 }, (_, h) =>
      labels.map((l, k) => (l === h ? k : -1)).filter((k) => k >= 0));
    const seats = optimal(strata.map((members) => members.length), data.spreads[H - 1], m);
    const chances = new Array(N).fill(0);
    strata.forEach((members, h) => {
      inclusion(members.map((k) => data.norms[k]), seats[h]).forEach((v, i) => { chances[members[i]] = v; });
    });
    const found = { seats, chances };
    Object.defineProperty(found, "strata", { value: strata });
    return found;
  }

  function build(root) {
    const { controls, figure, told } = frame(root);
    let random = generator(3), drawn = new Set(), known = [0, 0, null];
    const strata = slider(controls, "strata, H", 1, data.labels.length, 1, data.H, String, clear);
    const m = slider(controls, "seats, m", 1, 20, 1, data.m, String, clear);
    buttons(controls, [["Draw a round", draw]]);
    const holder = make("div", { class: "explorer-table", tabindex: "0", role: "region", "aria-label": "strata" }, root);

    function clear() { drawn = new Set(); update(); }

    function draw() { // the smallest arrival times of each stratum
      const found = now();
      drawn = new Set(found.strata.flatMap((members, h) => members
        .map((k) => [-Math.log(1 - random()) / data.norms[k], k]).sort((a, b) => a[0] - b[0])
        .slice(0, found.seats[h]).map((each) => each[1])));
      update();
    }

    function now() {
      m.input.min = strata.get();
      m.told();
      if (known[0] !== strata.get() || known[1] !== m.get()) known = [strata.get(), m.get(), onMap(strata.get(), m.get())];
      return known[2];
    }

    function update() {
      const found = now(), H = found.strata.length, xs = data.points.map((p) => p[0]), ys = data.points.map((p) => p[1]);
      const span = (list) => [Math.min(...list) - 0.12 * (Math.max(...list) - Math.min(...list)), Math.max(...list) + 0.12 * (Math.max(...list) - Math.min(...list))];
      const p = plane(figure, `${N} clients in ${H} strata with ${found.seats.join(", ")} seats` + (drawn.size ? `; drawn are ${drawn.size}` : ""),
        span(xs), span(ys), { ticksX: false, ticksY: false, left: 12, bare: true });
      const names = [];
      found.strata.forEach((members, h) => {
        const x = p.px(sum(members.map((k) => xs[k])) / members.length), y = p.py(sum(members.map((k) => ys[k])) / members.length);
        members.forEach((k) => p.line(p.px(xs[k]), p.py(ys[k]), x, y, "tie"));
        names.push([x, y, letter(h)]);
      });
      data.points.forEach((_, k) => {
        const r = 1.5 + 8.5 * Math.sqrt(found.chances[k]);
        p.parts.push(`<circle class="client${drawn.has(k) ? " drawn" : ""}" cx="${p.px(xs[k]).toFixed(1)}" cy="${p.py(ys[k]).toFixed(1)}" r="${r.toFixed(1)}"/>`);
      });
      names.forEach(([x, y, name]) => p.text(x, y + 5, name, "middle", "name"));
      p.finish();
      holder.textContent = "";
      const table = make("table", {}, holder);
      const line = (label, cells, kind) => {
        const row = make("tr", { "data-row": label }, table);
        make("th", { scope: "row" }, row, label);
        cells.forEach((cell) => make(kind || "td", {}, row, cell));
      };
      line("stratum", found.strata.map((_, h) => letter(h)), "th");
      line("clients", found.strata.map((members) => String(members.length)));
      line("spread", data.spreads[strata.get() - 1].map((v) => number(v, 2)));
      line("seats", found.seats.map(String));
      told.textContent = `A disc\u2019s area is the chance to be drawn: from ${number(100 * Math.min(...found.chances), 0)} % to ${number(100 * Math.max(...found.chances), 0)} %. `
        + "A line ties a client to the middle of its stratum. "
        + (drawn.size ? "Filled: the cohort of this round." : "Draw a round to see who is asked.");
    }
    return update;
  }
  return { formulas: { onMap }, build };
});
