/* What the instruments share: small formulas, parts of a page, and their start. No network, no framework.
   An instrument is added by its name: `add(name, (tools, data) => ({ formulas, build }))`. What `formulas`
   compute, the package computes, too; the cases in `data` hold the two together. */
window.fedstasExplorer = (function () {
  "use strict";
  const api = {}, parts = {}, source = document.getElementById("explorer-data");
  const data = source ? JSON.parse(source.textContent) : {};

  // ---- formulas of more than one instrument -------------------------------------------------
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

  function truth(epsilon, cap) {
    return -Math.expm1(-epsilon) / (1 + (cap - 2) * Math.exp(-epsilon));
  }

  /* Random numbers in [0, 1) that are the same on each visit (mulberry32). */
  function generator(seed) {
    let state = seed;
    return () => {
      state = (state + 0x6d2b79f5) | 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  /* What each pair of clients adds to the variance of a round if they share a group (theory.least_variance.pair_weights):
     q_k q_l |a_k - a_l|^2, for draws in proportion to the masses q. */
  function pairWeights(q, points) {
    return q.map((mine, k) => q.map((theirs, l) => mine * theirs * sum(points[k].map((v, i) => (v - points[l][i]) ** 2))));
  }

  /* The sum over the pairs that share a group: the variance of one draw from each. */
  const within = (d, labels) => sum(d.flatMap((row, k) => row.filter((_, l) => l < k && labels[l] === labels[k])));

  /* What client k costs in each of m groups. */
  function costs(d, labels, m, k) {
    const found = new Array(m).fill(0);
    labels.forEach((h, l) => { if (h >= 0 && l !== k) found[h] += d[k][l]; });
    return found;
  }

  /* The groups of least variance, as the package searches them: each client goes where it costs least, then single
     clients move and pairs change places while that helps. The best of several orders is kept. */
  function leastVariance(d, m, orders) {
    const all = within(d, d.map(() => 0)), unit = 2 ** -36 * (all || 1);
    const least = (list) => list.indexOf(Math.min(...list));
    const rounded = (labels, k) => costs(d, labels, m, k).map((v) => Math.round(v / unit));

    function place(labels, order) {
      order.forEach((k) => { if (labels[k] < 0) labels[k] = least(rounded(labels, k)); });
      for (let at = 0, calm = 0; calm < order.length; at = (at + 1) % order.length) {
        const k = order[at], now = rounded(labels, k), best = least(now);
        calm += 1;
        if (now[best] <= now[labels[k]] - 8) { labels[k] = best; calm = 0; }
      }
    }

    function swap(labels) {
      const change = bestSwap(d, labels, m);
      if (!change || change.gain < 8 * unit) return false;
      [labels[change.k], labels[change.l]] = [labels[change.l], labels[change.k]];
      return true;
    }

    let best = null, lowest = Infinity;
    orders.forEach((order) => {
      const labels = d.map(() => -1);
      place(labels, order);
      while (swap(labels)) place(labels, order);
      const cost = within(d, labels);
      if (cost < lowest - unit) { best = labels; lowest = cost; }
    });
    const first = [...new Set(best)];
    return best.map((h) => first.indexOf(h));
  }

  /* The two clients of different groups whose exchange lowers the sum most, and by how much. */
  function bestSwap(d, labels, m) {
    const cost = d.map((_, k) => costs(d, labels, m, k));
    let best = null;
    d.forEach((row, k) => row.forEach((pair, l) => {
      if (l <= k || labels[l] === labels[k]) return;
      const gain = cost[k][labels[k]] - cost[k][labels[l]] + cost[l][labels[l]] - cost[l][labels[k]] + 2 * pair;
      if (!best || gain > best.gain) best = { k, l, gain };
    }));
    return best;
  }

  /* One of `list`, with chances in proportion to `masses`. */
  function pick(list, masses, random) {
    let u = random() * sum(list.map((k) => masses[k]));
    return list.find((k) => (u -= masses[k]) < 0) ?? list[list.length - 1];
  }

  /* Equal numbers, lists and tables of them; `tell` names the first difference. */
  function close(a, b) {
    if (a === null || b === null || a === undefined || b === undefined) return a === b;
    if (typeof b === "number") return Math.abs(a - b) <= 1e-8 * Math.max(1, Math.abs(b));
    if (typeof b !== "object") return a === b;
    const keys = Object.keys(b);
    return keys.length === Object.keys(a).length && keys.every((k) => close(a[k], b[k]));
  }

  function differences() {
    const found = [];
    Object.keys(parts).forEach((part) => Object.keys(data[part].cases).forEach((name) => {
      data[part].cases[name].forEach((one) => {
        const mine = parts[part].formulas[name].apply(null, one.given);
        if (!close(mine, one.answer)) found.push(name + " of " + JSON.stringify(one.given));
      });
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
    const width = Math.max(options.least || 260, parent.clientWidth), height = options.height || 250;
    const left = options.left || 46, bottom = options.bare ? 10 : 40, right = 12, top = options.bare ? 10 : 22;
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
    if (!options.bare) line(left, height - bottom, width - right, height - bottom, "axis");
    if (options.x) text((left + width - right) / 2, height - 6, options.x, "middle");
    if (options.y) text(4, 10, options.y, "start");
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

  /* Buttons in a row; `acts` are a label and what a press does, each. */
  function buttons(parent, acts) {
    const row = make("div", { class: "explorer-buttons" }, parent);
    return acts.map(([label, act]) => {
      const button = make("button", { type: "button" }, row, label);
      button.addEventListener("click", act);
      return button;
    });
  }

  /* Buttons that play a picture: one step, play or pause, and back to the start. While it plays, `told` is not read
     aloud. For a reader who asked for reduced motion, the second button takes `jump` steps at once instead.
     `step(count)` takes steps and draws, and returns false where there is no further one. */
  function player(parent, told, { one, many, jump, every, batch, step, restart }) {
    const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    let timer = null;
    const advance = (count) => { if (step(count) === false) pause(); };

    function pause() {
      clearInterval(timer);
      timer = null;
      told.setAttribute("aria-live", "polite");
      if (!still) play.textContent = "Play";
    }

    function toggle() {
      if (still) { step(jump); return; }
      if (timer) { pause(); step(0); return; } // drawn again, so that its words are read
      told.setAttribute("aria-live", "off");
      play.textContent = "Pause";
      timer = setInterval(() => { if (!document.hidden) advance(batch); }, every);
    }

    const again = () => { pause(); restart(); };
    const [, play] = buttons(parent, [[one, () => { pause(); step(1); }], [still ? many : "Play", toggle], ["Start again", again]]);
    return { pause };
  }

  /* A polygon cut by the half-plane where f >= 0; f is linear. */
  function clip(polygon, f) {
    return polygon.flatMap((p, i) => {
      const next = polygon[(i + 1) % polygon.length], a = f(p), b = f(next), found = a >= 0 ? [p] : [];
      if (a >= 0 !== b >= 0) found.push(p.map((v, j) => v + (a / (a - b)) * (next[j] - v)));
      return found;
    });
  }

  /* Marks of different shape and about the same area, as the path of an SVG: disc, square, triangle, diamond. */
  function mark(shape, x, y, r) {
    const at = (list) => "M" + list.map(([dx, dy]) => `${(x + dx * r).toFixed(1)} ${(y + dy * r).toFixed(1)}`).join("L") + "Z";
    if (shape === 1) return at([[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]]);
    if (shape === 2) return at([[0, -1.2], [1.15, 0.85], [-1.15, 0.85]]);
    if (shape === 3) return at([[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]]);
    return `M${(x - r).toFixed(1)} ${y.toFixed(1)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;
  }

  function frame(root) {
    const controls = make("div", { class: "explorer-controls" }, root);
    const figure = make("div", { class: "explorer-plot" }, root);
    const told = make("p", { class: "explorer-told", role: "status" }, root);
    return { controls, figure, told };
  }

  // ---- start --------------------------------------------------------------------------------
  function add(name, make_part) {
    if (!data[name]) return;
    parts[name] = make_part(tools, data[name]);
    Object.assign(api, parts[name].formulas);
  }

  function start() {
    document.querySelectorAll(".explorer[data-part]").forEach((root) => {
      const name = root.dataset.part, figure = document.getElementById(root.dataset.figure || "fig-explorer-" + name);
      root.hidden = false;
      try {
        const update = parts[name].build(root, figure);
        update();
        let width = root.clientWidth;
        window.addEventListener("resize", () => {
          if (root.clientWidth !== width) { width = root.clientWidth; update(); }
        });
        window.addEventListener("beforeprint", update);
        if (figure) {
          figure.hidden = true;
          figure.classList.add("explorer-replaced", name);
        }
        root.parentElement.querySelectorAll(`.explorer-still.${name}`).forEach((node) => { node.hidden = true; });
      } catch (error) { // the static figure stays
        root.hidden = true;
        console.error("explorer " + name + ": " + error.message);
      }
    });
    const told = document.querySelectorAll(".explorer-checked");
    if (!told.length) return;
    const wrong = differences();
    const many = sum(Object.keys(parts).flatMap((p) => Object.values(data[p].cases).map((list) => list.length)));
    told.forEach((node) => {
      node.dataset.wrong = wrong.length;
      node.textContent = wrong.length
        ? "This browser computes other numbers than the package: " + wrong.join("; ") + "."
        : `In this browser the formulas gave the package's numbers on all ${many} test inputs.`;
    });
  }

  const tools = {
    sum, largestRemainder, optimal, truth, generator, pairWeights, within, costs, leastVariance, bestSwap, pick,
    make, number, slider, buttons, player, plane, clip, mark, key, frame,
  };
  return Object.assign(api, { add, start, differences, generator });
})();
