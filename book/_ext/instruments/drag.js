/* Drag clients between groups: the pairs inside groups add up to the variance of a round. */
fedstasExplorer.add("drag", (tools, data) => {
  "use strict";
  const { sum, generator, pairWeights, within, costs, leastVariance, bestSwap, pick, make, number, buttons, plane, mark, key, frame } = tools;
  const N = data.sizes.length, omega = data.sizes.map((n) => n / sum(data.sizes)), everyone = omega.map((_, k) => k);
  const d = pairWeights(omega, data.updates), letter = (h) => String.fromCharCode(65 + h), ROUNDS = 10000;

  /* The variance of a round by groups, that of MD with as many draws, and the groups that the search finds. */
  function grouping(labels, m) {
    const parts = Array.from({ length: m }, (_, h) => within(d, labels.map((l, k) => (l === h ? h : -1 - k))));
    const found = leastVariance(d, m, data.orders);
    return { parts, variance: sum(parts), md: within(d, labels.map(() => 0)) / m, searched: within(d, found) };
  }

  /* Mean squared distance of simulated rounds from the update of all clients. */
  function simulate(labels, rounds, random) {
    const groups = [...new Set(labels)].map((h) => everyone.filter((k) => labels[k] === h));
    const weights = groups.map((members) => sum(members.map((k) => omega[k])));
    const target = [0, 1].map((i) => sum(omega.map((w, k) => w * data.updates[k][i])));
    let total = 0;
    for (let t = 0; t < rounds; t += 1) {
      const chosen = groups.map((members) => pick(members, omega, random));
      total += sum([0, 1].map((i) => (sum(chosen.map((k, h) => weights[h] * data.updates[k][i])) - target[i]) ** 2));
    }
    return total / rounds;
  }

  function build(root) {
    const { controls, figure, told } = frame(root), m = data.m;
    let labels, said, measured, random = generator(2);
    key(controls, [["md", "MD sampling"], ["least", "least-variance strata"]]);
    buttons(controls, [["One step of the search", search], ["Search to the end", finish], [`Draw ${number(ROUNDS, 0)} rounds`, measure], ["Start again", restart]]);
    const pair = make("div", { class: "explorer-halves" }), map = make("div", { class: "explorer-plot" }, pair), boxes = make("div", { class: "explorer-boxes" }, pair);
    root.insertBefore(pair, figure);
    const groups = Array.from({ length: m }, (_, h) => {
      const box = make("div", { class: "explorer-box", role: "group" }, boxes), title = make("p", { class: "explorer-boxtitle" }, box);
      return { box, title, chips: make("div", { class: "explorer-chips" }, box), h };
    });
    const chips = everyone.map((k) => {
      const chip = make("button", { type: "button", class: "explorer-chip" });
      chip.addEventListener("keydown", (event) => {
        const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (by) { event.preventDefault(); move(k, (labels[k] + by + m) % m); chip.focus(); }
      });
      dragging(chip, k);
      return chip;
    });

    /* A drag carries a chip to the box where it is let go; a press alone moves it to the next group. */
    function dragging(chip, k) {
      let from = null, far = false;
      chip.addEventListener("pointerdown", (event) => { from = [event.clientX, event.clientY]; far = false; chip.setPointerCapture(event.pointerId); });
      chip.addEventListener("pointermove", (event) => {
        if (!from) return;
        const by = [event.clientX - from[0], event.clientY - from[1]];
        far = far || Math.hypot(...by) > 6;
        if (far) chip.style.transform = `translate(${by[0]}px, ${by[1]}px)`;
      });
      const drop = (event) => {
        chip.style.transform = "";
        if (from && far && event.type === "pointerup") {
          const over = groups.find(({ box }) => {
            const r = box.getBoundingClientRect();
            return event.clientX >= r.left && event.clientX <= r.right && event.clientY >= r.top && event.clientY <= r.bottom;
          });
          if (over) move(k, over.h);
        }
        from = null;
      };
      chip.addEventListener("pointerup", drop);
      chip.addEventListener("pointercancel", drop);
      chip.addEventListener("click", () => { if (!far) { move(k, (labels[k] + 1) % m); chip.focus(); } far = false; });
    }

    function move(k, h) {
      if (h !== labels[k]) said = `Client ${k + 1} moved from group ${letter(labels[k])} to ${letter(h)}. `;
      labels[k] = h;
      measured = null;
      show();
    }

    /* The single move that lowers the sum most; where none does, the exchange that does. */
    function improve() {
      let best = { gain: 1e-9 };
      everyone.forEach((k) => costs(d, labels, m, k).forEach((cost, h, list) => {
        if (list[labels[k]] - cost > best.gain) best = { gain: list[labels[k]] - cost, k, h };
      }));
      if (best.k !== undefined) {
        said = `The search moved client ${best.k + 1} from group ${letter(labels[best.k])} to ${letter(best.h)}. `;
        labels[best.k] = best.h;
        return true;
      }
      const swap = bestSwap(d, labels, m);
      if (!swap || swap.gain < 1e-9) { said = "No move of a client and no exchange of two lowers the variance any more. "; return false; }
      said = `The search exchanged clients ${swap.k + 1} and ${swap.l + 1}. `;
      [labels[swap.k], labels[swap.l]] = [labels[swap.l], labels[swap.k]];
      return true;
    }

    function search() { measured = null; improve(); show(); }
    function finish() { measured = null; while (improve()); show(); }
    function measure() { measured = simulate(labels, ROUNDS, random); said = ""; show(); }
    function restart() { labels = data.start.slice(); said = ""; measured = null; show(); }

    function drawMap() {
      const reach = 1.25, p = plane(map, `The updates of ${N} clients as points; lines tie clients of one group, and thick lines add much to the variance`,
        [-reach, reach], [-reach, reach], { ticksX: false, ticksY: false, bare: true, left: 10, height: 260 });
      const thick = Math.max(...d.flat());
      everyone.forEach((k) => everyone.forEach((l) => {
        if (l >= k || labels[k] !== labels[l]) return;
        const [a, b] = [data.updates[k], data.updates[l]], width = 0.6 + 9 * (d[k][l] / thick);
        p.parts.push(`<line class="pair" x1="${p.px(a[0]).toFixed(1)}" y1="${p.py(a[1]).toFixed(1)}" x2="${p.px(b[0]).toFixed(1)}" y2="${p.py(b[1]).toFixed(1)}" stroke-width="${width.toFixed(1)}"/>`);
      }));
      everyone.forEach((k) => {
        const [x, y] = [p.px(data.updates[k][0]), p.py(data.updates[k][1])], r = 22 * Math.sqrt(omega[k]);
        p.parts.push(`<path class="member class-${labels[k]}" d="${mark(labels[k], x, y, r)}"/>`);
        p.text(x + r + 4, y + 4, String(k + 1), "start", "name small");
      });
      p.finish();
    }

    function show() {
      const found = grouping(labels, m);
      drawMap();
      groups.forEach(({ box, title, chips: list, h }) => {
        const members = everyone.filter((k) => labels[k] === h), share = number(1000 * found.parts[h], 0);
        title.innerHTML = `<svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true"><path class="class-${h}" d="${mark(h, 8, 8, 6)}"/></svg> group ${letter(h)}: ${share}`;
        box.setAttribute("aria-label", `group ${letter(h)}, ${members.length} clients, adds ${share} to the variance`);
        members.forEach((k) => {
          if (chips[k].parentElement !== list) list.appendChild(chips[k]);
          const [x, y] = data.updates[k], far = 11 / Math.max(...data.updates.map((u) => Math.hypot(...u)));
          chips[k].setAttribute("aria-label", `client ${k + 1}, in group ${letter(h)}: press to move it to the next group`);
          chips[k].innerHTML = `${k + 1}<svg width="26" height="26" viewBox="-13 -13 26 26" aria-hidden="true"><circle r="1.6"/><line x2="${(x * far).toFixed(1)}" y2="${(-y * far).toFixed(1)}"/></svg>`;
        });
      });
      const start = grouping(data.start, m), top = 1.12 * Math.max(start.variance, found.variance, found.md);
      const p = plane(figure, `Variance of a round: ${number(1000 * found.variance, 0)} thousandths; MD sampling ${number(1000 * found.md, 0)}; the search's groups ${number(1000 * found.searched, 0)}`,
        [0, 1000 * top], [0, 1], { x: "variance of a round, in thousandths", ticksY: false, left: 12, height: 120 });
      let at = 0;
      found.parts.forEach((part, h) => {
        p.parts.push(`<rect class="part class-${h}" x="${p.px(1000 * at).toFixed(1)}" y="42" height="34" width="${Math.max(0, p.px(1000 * (at + part)) - p.px(1000 * at)).toFixed(1)}"/>`);
        if (p.px(1000 * part) - p.px(0) > 16) p.text(p.px(1000 * (at + part / 2)), 64, letter(h), "middle", "on");
        at += part;
      });
      [["md", found.md, "MD", 13], ["least", found.searched, "least", 28]].forEach(([kind, v, words, y]) => {
        p.line(p.px(1000 * v), y + 4, p.px(1000 * v), 80, "mark " + kind);
        p.text(p.px(1000 * v), y, words, "middle", kind);
      });
      p.finish();
      told.textContent = said + `The pairs inside the groups add up to ${found.parts.map((v) => number(1000 * v, 0)).join(" + ")}, in all ${number(1000 * found.variance, 0)} thousandths, each rounded: that is the variance of a round that draws one client from each group, `
        + `and ${number((100 * found.variance) / found.md, 0)}\u00a0% of MD\u2019s (${number(1000 * found.md, 0)}). `
        + (measured === null ? `The search finds groups with ${number(1000 * found.searched, 0)}.`
          : `In ${number(ROUNDS, 0)} rounds drawn just now, the mean squared error was ${number(1000 * measured, 0)}.`);
    }
    restart();
    return show;
  }
  return { formulas: { grouping, simulate }, build };
});
