/* Strata and allocation on a map of clients: the strata are the package's, allocation and chances are computed here. */
fedstasExplorer.add("strata", (tools, data) => {
  "use strict";
  const { sum, optimal, generator, make, number, slider, buttons, plane, mark, frame } = tools;
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
    const draws = optimal(strata.map((members) => members.length), data.spreads[H - 1], m);
    const chances = new Array(N).fill(0);
    strata.forEach((members, h) => {
      inclusion(members.map((k) => data.norms[k]), draws[h]).forEach((v, i) => { chances[members[i]] = v; });
    });
    const found = { draws, chances };
    Object.defineProperty(found, "strata", { value: strata });
    return found;
  }

  /* Shape and colour of a stratum's marks: eight strata have eight pairs. */
  const look = (h) => ({ shape: h % 4, colour: (h + Math.floor(h / 4)) % 4 });

  /* Where a stratum's name covers no mark and no other name: the first such place around the middle, or the best one.
     `taken` are places with a radius. */
  function freePlace(x, y, taken, width, height) {
    const gap = ([a, b]) => Math.min(...taken.map(([c, d, r]) => Math.hypot(a - c, b - d) - r), a - 10, width - 10 - a, b - 10, height - 10 - b);
    const around = [0, 12, 20, 28, 38, 50, 64].flatMap((r) => Array.from({ length: r ? 12 : 1 }, (_, i) => [x + r * Math.cos((i * Math.PI) / 6), y + r * Math.sin((i * Math.PI) / 6)]));
    return around.find((place) => gap(place) >= 9) ?? around.reduce((a, b) => (gap(b) > gap(a) ? b : a));
  }

  function build(root) {
    const { controls, figure, told } = frame(root);
    let random = generator(3), drawn = new Set(), known = [0, 0, null];
    const strata = slider(controls, "strata, H", 1, data.labels.length, 1, data.H, String, clear);
    const m = slider(controls, "participants, m", 1, 20, 1, data.m, String, clear);
    buttons(controls, [["Draw a round", draw]]);
    const holder = make("div", { class: "explorer-table", tabindex: "0", role: "region", "aria-label": "strata" }, root);

    function clear() { drawn = new Set(); update(); }

    function draw() { // the smallest arrival times of each stratum
      const found = now();
      drawn = new Set(found.strata.flatMap((members, h) => members
        .map((k) => [-Math.log(1 - random()) / data.norms[k], k]).sort((a, b) => a[0] - b[0])
        .slice(0, found.draws[h]).map((each) => each[1])));
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
      const p = plane(figure, `${N} clients in ${H} strata with ${found.draws.join(", ")} participants` + (drawn.size ? `; drawn are ${drawn.size}` : ""),
        span(xs), span(ys), { ticksX: false, ticksY: false, left: 12, bare: true });
      const names = [];
      found.strata.forEach((members, h) => {
        const x = p.px(sum(members.map((k) => xs[k])) / members.length), y = p.py(sum(members.map((k) => ys[k])) / members.length);
        members.forEach((k) => p.line(p.px(xs[k]), p.py(ys[k]), x, y, "tie"));
        names.push([x, y, letter(h)]);
      });
      const taken = [];
      found.strata.forEach((members, h) => members.forEach((k) => {
        const r = 2 + 9 * Math.sqrt(found.chances[k]), { shape, colour } = look(h);
        p.parts.push(`<path class="client class-${colour}${drawn.has(k) ? " drawn" : ""}" d="${mark(shape, p.px(xs[k]), p.py(ys[k]), r)}"/>`);
        taken.push([p.px(xs[k]), p.py(ys[k]), r]);
      }));
      names.forEach(([x, y, name]) => {
        const [a, b] = freePlace(x, y, taken, p.width, p.height);
        p.text(a, b + 5, name, "middle", "name");
        taken.push([a, b, 9]);
      });
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
      line("participants", found.draws.map(String));
      told.textContent = `A mark\u2019s area is its client\u2019s chance to be drawn: from ${number(100 * Math.min(...found.chances), 0)} % to ${number(100 * Math.max(...found.chances), 0)} %. `
        + "A line ties a client to the middle of its stratum. "
        + (drawn.size ? "Outlined: the cohort of this round." : "Draw a round to see who is asked.");
    }
    return update;
  }
  return { formulas: { onMap }, build };
});
