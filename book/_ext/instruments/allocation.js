/* How many participants does each stratum get? */
fedstasExplorer.add("allocation", (tools, data) => {
  "use strict";
  const { sum, largestRemainder, optimal, number, slider, make, plane, key, frame } = tools;

  function variance(sizes, spreads, found) {
    const total = sum(sizes);
    return sum(sizes.map((n, h) => {
      const share = (n / total) * spreads[h];
      return share === 0 ? 0 : (share * share) / found[h];
    }));
  }

  function allocate(sizes, spreads, m) {
    const total = sum(sizes), t = sizes.map((n, h) => n * spreads[h]), all = sum(t);
    const printed = all > 0 ? t.map((x) => (m * x) / all) : null;
    const rows = {
      proportional: largestRemainder(sizes.map((n) => (m * n) / total), m),
      printed: printed,
      rounded: printed && largestRemainder(printed, m),
      optimal: optimal(sizes, spreads, m),
    };
    const answer = {};
    Object.keys(rows).forEach((name) => {
      const value = rows[name] ? variance(sizes, spreads, rows[name]) : null;
      answer[name] = { draws: rows[name], variance: Number.isFinite(value) ? value : null };
    });
    return answer;
  }

  function allocationPart(root) {
    const most = 8, more = [8, 25, 12, 5];
    const sizes = data.sizes.concat(more), spreads = data.spreads.concat([1, 0.5, 3, 2]);
    const { controls, figure, told } = frame(root);
    key(controls, [["written", "printed: eq. 3.5"], ["law", "rounded: largest remainder"],
      ["should", "optimal: whole numbers from 1 to N\u2095"]]);
    const strata = slider(controls, "strata, H", 1, most, 1, data.sizes.length, String, update);
    const m = slider(controls, "participants, m", 1, 60, 1, data.m, String, update);
    const rows = [];
    for (let h = 0; h < most; h += 1) {
      const box = make("fieldset", { class: "explorer-stratum" }, controls);
      make("legend", {}, box, "stratum " + (h + 1));
      rows.push({
        box,
        size: slider(box, "clients, N\u2095", 1, 60, 1, sizes[h], String, update),
        spread: slider(box, "spread, S\u2095", 0, 5, 0.1, spreads[h], (v) => v.toFixed(1), update),
      });
    }
    const holder = make("div", { class: "explorer-table", tabindex: "0", role: "region", "aria-label": "allocations" }, root);

    function update() {
      const count = strata.get(), used = rows.slice(0, count);
      rows.forEach((row, h) => { row.box.hidden = h >= count; });
      const n = used.map((row) => row.size.get()), s = used.map((row) => row.spread.get());
      m.input.min = count;
      m.input.max = Math.min(60, sum(n));
      m.told();
      const found = allocate(n, s, m.get()), shown = ["printed", "rounded", "optimal"];
      const kinds = { printed: "written", rounded: "law", optimal: "should" };
      const top = Math.max(1, ...shown.map((name) => Math.max(0, ...(found[name].draws || []))));
      const words = shown.map((name) => name + " " + (found[name].draws ? found[name].draws.map((v) => number(v, 1)).join(", ") : "0/0"));
      const p = plane(figure, "Participants of each stratum: " + words.join("; "), [0, count], [0, top * 1.1],
        { ticksX: false, y: "participants m\u2095", left: 34 });
      n.forEach((_, h) => {
        const wide = (p.px(h + 1) - p.px(h)) * 0.26;
        shown.forEach((name, i) => {
          if (!found[name].draws) return;
          const v = found[name].draws[h], x = p.px(h + 0.5) + (i - 1.5) * wide;
          p.parts.push(`<rect class="${kinds[name]}" x="${x.toFixed(1)}" y="${p.py(v).toFixed(1)}" width="${Math.max(1, wide - 1).toFixed(1)}" height="${(p.py(0) - p.py(v)).toFixed(1)}"/>`);
          if (wide > 17) p.text(x + wide / 2, p.py(v) - 3, number(v, 1), "middle", "small");
        });
        p.text(p.px(h + 0.5), p.height - p.bottom + 16, String(h + 1), "middle");
      });
      p.text((p.left + p.width) / 2, p.height - 6, "stratum", "middle");
      p.finish();

      holder.textContent = "";
      const table = make("table", {}, holder), head = make("tr", {}, make("thead", {}, table));
      ["", ...n.map((_, h) => String(h + 1)), "variance"].forEach((t) => make("th", { scope: "col" }, head, t));
      const body = make("tbody", {}, table);
      ["proportional", ...shown].forEach((name) => {
        const row = make("tr", { "data-row": name }, body), each = found[name];
        make("th", { scope: "row" }, row, name);
        n.forEach((_, h) => make("td", {}, row, each.draws ? number(each.draws[h], 2) : "0/0"));
        make("td", {}, row, each.draws ? number(each.variance, 4) : "\u2013");
      });

      const said = [], rounded = found.rounded.draws, printed = found.printed.draws;
      const names = (list) => (list.length > 1 ? "strata " : "stratum ") + list.map((h) => h + 1).join(", ").replace(/, (\d+)$/, " and $1");
      if (!printed) said.push("All spreads are 0: eq. 3.5 is 0/0, and every allocation is optimal.");
      else {
        const none = n.map((_, h) => h).filter((h) => rounded[h] === 0);
        const over = n.map((_, h) => h).filter((h) => rounded[h] > n[h]);
        if (none.length) said.push(`Rounding gives ${names(none)} no participant: none of those clients can ever be drawn.`);
        if (over.length) said.push(`Rounding gives ${names(over)} more participants than there are clients.`);
        if (!none.length && !over.length) {
          const lost = found.optimal.variance > 0 ? found.rounded.variance / found.optimal.variance - 1 : 0;
          said.push(lost > 1e-9 ? `Rounding costs ${number(100 * lost, 1)} % of variance against the optimum.`
            : "Here rounding is optimal.");
        }
        const gain = 1 - found.optimal.variance / found.proportional.variance;
        if (found.proportional.variance === null) said.push("Proportional allocation leaves a stratum out, too.");
        else if (Number.isFinite(gain)) said.push(`The optimum has ${number(100 * gain, 1)} % less variance than proportional allocation.`);
      }
      told.textContent = said.join(" ");
    }
    return update;
  }

  return { formulas: { allocate }, build: allocationPart };
});
