/* The explorer: three small instruments, drawn in the page itself. No network, no framework.
   What is computed here is also computed by the package; `cases` hold the two together. */
(function () {
  "use strict";
  const source = document.getElementById("explorer-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);

  // ---- the formulas -------------------------------------------------------------------------
  const sum = (list) => list.reduce((a, b) => a + b, 0);

  function largestRemainder(quotas, m) {
    const floors = quotas.map((q) => Math.floor(q + 1e-9));
    const rest = quotas.map((q, h) => Math.round((q - floors[h]) * 1e9));
    const order = quotas.map((_, h) => h).sort((a, b) => rest[b] - rest[a] || a - b);
    const found = floors.slice();
    order.slice(0, m - sum(floors)).forEach((h) => { found[h] += 1; });
    return found;
  }

  function optimal(sizes, spreads, m) {
    const total = sum(sizes), found = sizes.map((n) => (n > 0 ? 1 : 0));
    for (let left = m - sum(found); left > 0; left -= 1) {
      let best = -1, top = -Infinity, gap = -Infinity;
      sizes.forEach((n, h) => {
        if (found[h] >= n) return;
        const t = n * spreads[h];
        const priority = t > 0 ? t / Math.sqrt(found[h] * (found[h] + 1)) : 0;
        const short = (m * n) / total - found[h];
        if (priority > top || (priority === top && short > gap)) {
          best = h; top = priority; gap = short;
        }
      });
      found[best] += 1;
    }
    return found;
  }

  function variance(sizes, spreads, found) {
    const total = sum(sizes);
    return sum(sizes.map((n, h) => {
      const share = (n / total) * spreads[h];
      return share === 0 ? 0 : (share * share) / found[h];
    }));
  }

  function seats(sizes, spreads, m) {
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
      answer[name] = { seats: rows[name], variance: Number.isFinite(value) ? value : null };
    });
    return answer;
  }

  function truth(epsilon, cap) {
    return -Math.expm1(-epsilon) / (1 + (cap - 2) * Math.exp(-epsilon));
  }

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

  const formulas = { seats: seats, estimate: estimate, composed: composed };

  /* Equal numbers, lists and tables of them; `tell` names the first difference. */
  function close(a, b) {
    if (a === null || b === null || a === undefined || b === undefined) return a === b;
    if (typeof b === "number") return Math.abs(a - b) <= 1e-8 * Math.max(1, Math.abs(b));
    const keys = Object.keys(b);
    return keys.length === Object.keys(a).length && keys.every((k) => close(a[k], b[k]));
  }

  function differences() {
    const found = [];
    Object.keys(data.cases).forEach((name) => data.cases[name].forEach((one) => {
      const mine = formulas[name].apply(null, one.given);
      if (!close(mine, one.answer)) found.push(name + " of " + JSON.stringify(one.given));
    }));
    return found;
  }

  // ---- small parts of a page ----------------------------------------------------------------
  function make(tag, attributes, parent, text) {
    const node = document.createElement(tag);
    Object.keys(attributes || {}).forEach((key) => node.setAttribute(key, attributes[key]));
    if (text !== undefined) node.textContent = text;
    if (parent) parent.appendChild(node);
    return node;
  }

  function number(value, digits) {
    if (value === null || !Number.isFinite(value)) return "infinite";
    return value.toLocaleString("en", { maximumFractionDigits: digits }).replace("-", "\u2212");
  }

  let count = 0;
  function slider(parent, label, low, high, step, value, show, react) {
    count += 1;
    const id = "explorer-" + parent.closest("[data-part]").dataset.part + "-" + count;
    const row = make("div", { class: "explorer-slider" }, parent);
    make("label", { for: id }, row, label);
    const output = make("output", { for: id }, row);
    const input = make("input", { type: "range", id, min: low, max: high, step, value }, row);
    const told = () => {
      output.textContent = show(Number(input.value));
      input.setAttribute("aria-valuetext", output.textContent);
    };
    input.addEventListener("input", () => { told(); react(); });
    told();
    return { input, told, get: () => Number(input.value), row };
  }

  /* A plane of the width that is there, with axes; text is never scaled down. */
  function plane(parent, label, x, y, options) {
    const width = Math.max(260, parent.clientWidth), height = 250;
    const left = options.left || 46, bottom = 40, right = 12, top = 22;
    const parts = [];
    const px = (v) => left + ((v - x[0]) / (x[1] - x[0])) * (width - left - right);
    const py = (v) => height - bottom - ((v - y[0]) / (y[1] - y[0])) * (height - bottom - top);
    const escape = (t) => String(t).replace(/&/g, "&amp;").replace(/</g, "&lt;");
    const text = (tx, ty, said, anchor, kind) => parts.push(
      `<text x="${tx.toFixed(1)}" y="${ty.toFixed(1)}" text-anchor="${anchor}" class="${kind || ""}">${escape(said)}</text>`);
    const line = (a, b, c, d, kind) => parts.push(
      `<line x1="${a.toFixed(1)}" y1="${b.toFixed(1)}" x2="${c.toFixed(1)}" y2="${d.toFixed(1)}" class="${kind}"/>`);
    const path = (points, kind, closed) => parts.push(
      `<path class="${kind}" d="M${points.map((p) => px(p[0]).toFixed(1) + " " + py(p[1]).toFixed(1)).join("L")}${closed ? "Z" : ""}"/>`);
    line(left, height - bottom, width - right, height - bottom, "axis");
    if (options.x) text((left + width - right) / 2, height - 6, options.x, "middle");
    if (options.y) text(4, 13, options.y, "start");
    const ticks = (low, high, many) => {
      const rough = (high - low) / many, base = Math.pow(10, Math.floor(Math.log10(rough)));
      const step = [1, 2, 5, 10].map((k) => k * base).find((s) => s >= rough);
      const found = [];
      for (let v = Math.ceil(low / step) * step; v <= high * (1 + 1e-9); v += step) found.push(v + 0);
      return found;
    };
    if (options.ticksX !== false) ticks(x[0], x[1], width / 90).forEach((v) => {
      text(px(v), height - bottom + 15, number(v, 2), "middle");
      line(px(v), height - bottom, px(v), height - bottom + 4, "axis");
    });
    if (options.ticksY !== false) ticks(y[0], y[1], 4).forEach((v) => {
      line(left, py(v), width - right, py(v), "rule");
      text(left - 5, py(v) + 4, number(v, 2), "end");
    });
    const finish = () => {
      parent.innerHTML = `<svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escape(label).replace(/"/g, "&quot;")}">${parts.join("")}</svg>`;
    };
    return { px, py, text, line, path, parts, finish, width, height, bottom, left, right, top };
  }

  function key(parent, entries) {
    const list = make("ul", { class: "explorer-key" }, parent);
    entries.forEach(([kind, words]) => {
      const item = make("li", {}, list);
      make("span", { class: "swatch " + kind, "aria-hidden": "true" }, item);
      item.appendChild(document.createTextNode(words));
    });
  }

  function frame(root) {
    const controls = make("div", { class: "explorer-controls" }, root);
    const figure = make("div", { class: "explorer-plot" }, root);
    const told = make("p", { class: "explorer-told", role: "status" }, root);
    return { controls, figure, told };
  }

  // ---- allocation ---------------------------------------------------------------------------
  function allocationPart(root) {
    const most = 8, more = [8, 25, 12, 5];
    const sizes = data.strata.sizes.concat(more), spreads = data.strata.spreads.concat([1, 0.5, 3, 2]);
    const { controls, figure, told } = frame(root);
    key(controls, [["written", "printed: eq. 3.5"], ["coded", "rounded: largest remainder"],
      ["should", "optimal: whole numbers from 1 to N\u2095"]]);
    const strata = slider(controls, "strata, H", 1, most, 1, data.strata.sizes.length, String, update);
    const m = slider(controls, "participants, m", 1, 60, 1, data.strata.m, String, update);
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
      const found = seats(n, s, m.get()), shown = ["printed", "rounded", "optimal"];
      const kinds = { printed: "written", rounded: "coded", optimal: "should" };
      const top = Math.max(1, ...shown.map((name) => Math.max(0, ...(found[name].seats || []))));
      const words = shown.map((name) => name + " " + (found[name].seats ? found[name].seats.map((v) => number(v, 1)).join(", ") : "0/0"));
      const p = plane(figure, "Seats of each stratum: " + words.join("; "), [0, count], [0, top * 1.1],
        { ticksX: false, y: "seats m\u2095", left: 34 });
      n.forEach((_, h) => {
        const wide = (p.px(h + 1) - p.px(h)) * 0.26;
        shown.forEach((name, i) => {
          if (!found[name].seats) return;
          const v = found[name].seats[h], x = p.px(h + 0.5) + (i - 1.5) * wide;
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
        n.forEach((_, h) => make("td", {}, row, each.seats ? number(each.seats[h], 2) : "0/0"));
        make("td", {}, row, each.seats ? number(each.variance, 4) : "\u2013");
      });

      const said = [], rounded = found.rounded.seats, printed = found.printed.seats;
      const names = (list) => (list.length > 1 ? "strata " : "stratum ") + list.map((h) => h + 1).join(", ");
      if (!printed) said.push("All spreads are 0: eq. 3.5 is 0/0, and every allocation is optimal.");
      else {
        const none = n.map((_, h) => h).filter((h) => rounded[h] === 0);
        const over = n.map((_, h) => h).filter((h) => rounded[h] > n[h]);
        if (none.length) said.push(`Rounding gives ${names(none)} no seat: none of those clients can ever be drawn.`);
        if (over.length) said.push(`Rounding gives ${names(over)} more seats than there are clients.`);
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

  // ---- the size estimator -------------------------------------------------------------------
  function estimatePart(root) {
    const { controls, figure, told } = frame(root), start = data.setting;
    key(controls, [["law", "its exact distribution"], ["zero", "0"], ["coded", "clipped total"], ["should", "true total"]]);
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
      [[0, "zero"], [clipped, "coded"], [total, "should"]].forEach(([v, kind]) =>
        p.line(p.px(v), p.top, p.px(v), p.height - p.bottom, "mark " + kind));
      p.finish();
      const root2 = Math.hypot(found.sd, found.mean - total) / total;
      told.textContent = `Mean ${number(found.mean, 0)} where ${number(total, 0)} examples are, `
        + `standard deviation ${number(found.sd, 0)}: the error is ${number(100 * root2, 0)} % of the total. `
        + `The estimate is not positive in ${number(100 * found.not_positive, 2)} % of the rounds. `
        + `Where a tenth is requested, the guarded rate is ${found.rate.toFixed(3)} on average.`
        + (top - 1 < n ? ` Every true answer is ${top - 1}: M clips all sizes.` : "");
    }
    return update;
  }

  // ---- the privacy loss ---------------------------------------------------------------------
  function privacyPart(root) {
    const { controls, figure, told } = frame(root), start = data.setting;
    const deltas = [0, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2];
    key(controls, [["coded", "composed \u03b5, \u03b4 = 0"], ["written", "composed \u03b5 at \u03b4"], ["reading", "size read off (per cent)"]]);
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
      p.path([[0, 0], [start.rounds, start.rounds * epsilon]], "curve coded");
      p.path(points, "curve written");
      p.line(p.px(many), p.top, p.px(many), p.height - p.bottom, "mark zero");
      p.finish();
      const read = data.attack[e.get()][cap.get()], last = read.length - 1;
      const chance = read[Math.min(many, last)];
      const q = plane(second, `Chance that the most frequent report is the size: ${number(100 * chance, 0)} per cent after ${Math.min(many, last)} reports`,
        [0, last], [0, 100], { x: "fresh reports", y: "size read off (%)" });
      q.path(read.map((v, k) => [k, 100 * v]), "curve reading");
      q.line(q.px(Math.min(many, last)), q.top, q.px(Math.min(many, last)), q.height - q.bottom, "mark zero");
      q.finish();
      told.textContent = `${many} fresh report${many > 1 ? "s" : ""} of \u03b5 = ${epsilon} cost \u03b5 = ${number(plain, 1)}`
        + (d > 0 ? `, or ${number(here, 1)} if \u03b4 = ${d} is allowed.` : ".")
        + ` The most frequent answer is the true (clipped) size with probability ${number(100 * chance, 0)} %`
        + (many > last ? ` already after ${last} reports.` : ".")
        + " One memoised report costs " + epsilon + ", however many rounds there are.";
    }
    return update;
  }

  // ---- start --------------------------------------------------------------------------------
  const parts = { allocation: allocationPart, estimate: estimatePart, privacy: privacyPart };
  document.querySelectorAll(".explorer[data-part]").forEach((root) => {
    const figure = document.getElementById("fig-explorer-" + root.dataset.part);
    root.hidden = false;
    try {
      const update = parts[root.dataset.part](root);
      update();
      let width = root.clientWidth;
      window.addEventListener("resize", () => {
        if (root.clientWidth !== width) { width = root.clientWidth; update(); }
      });
      window.addEventListener("beforeprint", update);
      if (figure) figure.hidden = true;
    } catch (error) { // the static figure stays
      root.hidden = true;
      console.error("explorer " + root.dataset.part + ": " + error.message);
    }
  });
  const wrong = differences();
  document.querySelectorAll(".explorer-checked").forEach((node) => {
    const many = sum(Object.values(data.cases).map((list) => list.length));
    node.dataset.wrong = wrong.length;
    node.textContent = wrong.length
      ? "This browser computes other numbers than the package: " + wrong.join("; ") + "."
      : `In this browser the formulas gave the package's numbers on all ${many} test inputs.`;
  });
  window.fedstasExplorer = { seats, estimate, composed, differences };
})();
