/* What is left of a gradient? Its entries go to the nearest of the levels that the package found. */
fedstasExplorer.add("squeeze", (tools, data) => {
  "use strict";
  const { sum, number, slider, plane, key, frame } = tools;
  const entries = data.entries, square = sum(entries.map((v) => v * v));

  const nearest = (levels, v) => levels.reduce((a, b) => (Math.abs(b - v) < Math.abs(a - v) ? b : a));

  function squeezed(count) {
    const levels = data.levels[count], restored = entries.map((v) => nearest(levels, v));
    const lost = sum(entries.map((v, i) => (v - restored[i]) * (v - restored[i])));
    const found = {
      kept: 1 - lost / square,
      bits: 32 * count + entries.length * Math.ceil(Math.log2(count)),
      counts: levels.map((level) => restored.filter((v) => v === level).length),
    };
    Object.defineProperty(found, "restored", { value: restored });
    return found;
  }

  function build(root) {
    const { controls, figure, told } = frame(root), most = Math.max(...Object.keys(data.levels).map(Number));
    key(controls, [["reading", "entries of the gradient, sorted"], ["law", "what the server restores"]]);
    const levels = slider(controls, "levels", 2, most, 1, data.start, String, update);
    const order = entries.map((_, i) => i).sort((a, b) => entries[a] - entries[b]);
    const reach = 1.05 * Math.max(...entries.map(Math.abs));

    function update() {
      const count = levels.get(), found = squeezed(count), d = entries.length;
      const p = plane(figure, `${d} entries of a gradient, sorted, and the ${count} levels that stand for them`,
        [0, d], [-reach, reach], { x: "entry, by size", y: "value" });
      const area = order.map((i, place) => [place, found.restored[i]]);
      p.path([[0, 0], ...area.flatMap(([x, v]) => [[x, v], [x + 1, v]]), [d, 0]], "law", true);
      p.path(order.map((i, place) => [place + 0.5, entries[i]]), "curve reading");
      p.finish();
      const bytes = found.bits / 8, full = 4 * d;
      told.textContent = `${count} levels take ${number(bytes, 0)} bytes instead of ${number(full, 0)}: one in ${number(full / bytes, 1)}. `
        + `They keep ${number(100 * found.kept, 1)} % of the gradient\u2019s squared length. `
        + `The level nearest to 0 stands for ${number(100 * Math.max(...found.counts) / d, 0)} % of the entries.`;
    }
    return update;
  }
  return { formulas: { squeezed }, build };
});
