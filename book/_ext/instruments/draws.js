/* The same clients drawn by three designs: where the estimates of their rounds lie around the update of all clients. */
fedstasExplorer.add("draws", (tools, data) => {
  "use strict";
  const { sum, generator, pick, make, number, slider, player, plane, mark, key, frame } = tools;
  const N = data.omega.length, everyone = data.omega.map((_, k) => k), FAR = 1.2, MOST = 20000, SHOWN = 400;

  /* The updates of a round, after a part of what the server asked about has changed: 0 is nothing, 1 all. */
  function updatesAfter(change) {
    return everyone.map((k) => [0, 1].map((i) => Math.sqrt(1 - change * change) * data.asked[k][i] + change * data.later[k][i]));
  }

  /* The variance of a round of independent draws: draw j is client k with chance p[j][k] and adds x[j][k]/p[j][k] of its update. */
  function roundVariance(x, p, change) {
    const updates = updatesAfter(change);
    return sum(x.map((row, j) => sum([0, 1].map((i) => {
      const mean = sum(row.map((v, k) => v * updates[k][i]));
      return sum(row.map((v, k) => (v ? (v * v / p[j][k]) * updates[k][i] ** 2 : 0))) - mean * mean;
    }))));
  }

  const two = (v) => v.toFixed(2);

  /* One round: the clients of its draws, and the estimate of the update of all clients. */
  function drawRound({ x, p }, updates, random) {
    const chosen = p.map((row) => pick(everyone, row, random));
    return { chosen, estimate: [0, 1].map((i) => sum(chosen.map((k, j) => (x[j][k] / p[j][k]) * updates[k][i]))) };
  }

  function build(root) {
    const { controls, figure, told } = frame(root);
    let random, runs, rounds, updates, target, exact;
    const change = slider(controls, "change since the server asked", 0, 100, 5, 0, (v) => `${v}\u00a0%`, () => { play.pause(); restart(); });
    const play = player(controls, told, { one: "One round", many: "100 rounds", jump: 100, every: 100, batch: 10, step, restart });
    key(controls, [["zero", "circle: the exact root mean squared distance"], ["reading", "drawn in the last round"]]);
    figure.classList.add("explorer-row");
    const panels = data.designs.map(({ kind, title }) => {
      const side = make("div", {}, figure);
      make("p", { class: "explorer-title " + kind }, side, title);
      return { place: make("div", { class: "explorer-plot" }, side), line: make("p", { class: "explorer-under" }, side) };
    });

    function restart() {
      const share = change.get() / 100;
      updates = updatesAfter(share);
      target = [0, 1].map((i) => sum(everyone.map((k) => data.omega[k] * updates[k][i])));
      exact = data.designs.map(({ x, p }) => Math.sqrt(roundVariance(x, p, share)));
      random = generator(5);
      runs = data.designs.map(() => ({ last: [], chosen: [], squares: 0 }));
      rounds = 0;
      show();
    }

    function step(count) {
      for (let t = 0; t < count && rounds < MOST; t += 1) {
        data.designs.forEach((design, i) => {
          const run = runs[i], { chosen, estimate } = drawRound(design, updates, random);
          run.chosen = chosen;
          run.squares += (estimate[0] - target[0]) ** 2 + (estimate[1] - target[1]) ** 2;
          run.last.push(estimate);
          if (run.last.length > SHOWN) run.last.shift();
        });
        rounds += 1;
      }
      show();
      return rounds < MOST;
    }

    const measured = (i) => Math.sqrt(runs[i].squares / rounds);

    function drawPanel({ place, line }, { kind, title, groups }, i) {
      const { last, chosen } = runs[i], width = Math.max(120, place.clientWidth);
      const p = plane(place, `${title}: the updates of ${N} clients as marks around the update of all clients`
        + (rounds ? `, and the estimates of the last ${last.length} rounds; drawn last are clients ${[...new Set(chosen)].map((k) => k + 1).join(", ")}` : ""),
        [-FAR, FAR], [-FAR, FAR], { ticksX: false, ticksY: false, bare: true, left: 12, least: 120, height: Math.min(width, 240) });
      const at = (v) => [p.px(v[0]), p.py(v[1])], [cx, cy] = at(target);
      everyone.forEach((k) => {
        const [x, y] = at(updates[k]), r = 24 * Math.sqrt(data.omega[k]), drawn = chosen.includes(k);
        p.parts.push(`<path class="member ${groups ? `class-${groups[k]}` : "anyone"}${drawn ? " chosen" : ""}" d="${mark(groups ? groups[k] : 0, x, y, r)}"/>`);
      });
      last.forEach((v) => {
        const [x, y] = at(v);
        p.parts.push(`<circle class="estimate ${kind}" cx="${x.toFixed(1)}" cy="${y.toFixed(1)}" r="1.8"/>`);
      });
      p.parts.push(`<ellipse class="spread" cx="${cx.toFixed(1)}" cy="${cy.toFixed(1)}" rx="${(exact[i] * (p.px(1) - p.px(0))).toFixed(1)}" ry="${(exact[i] * (p.py(0) - p.py(1))).toFixed(1)}"/>`);
      p.line(cx - 6, cy, cx + 6, cy, "cross");
      p.line(cx, cy - 6, cx, cy + 6, "cross");
      p.finish();
      line.innerHTML = `exactly ${two(exact[i])}<br>${rounds ? `measured ${two(measured(i))}` : "no round yet"}`;
    }

    function show() {
      panels.forEach((panel, i) => drawPanel(panel, data.designs[i], i));
      const all = (value) => data.designs.map(({ title }, i) => `${two(value(i))} with ${title}`).join(", ");
      told.textContent = rounds
        ? `After ${number(rounds, 0)} round${rounds > 1 ? "s" : ""} the root mean squared distance of an estimate from the update of all clients (the cross) is ${all(measured)}.`
        : `Each round draws ${data.designs[0].p.length} of ${N} clients and estimates the update of all clients (the cross). The root mean squared distance of the estimate from it is exactly ${all((i) => exact[i])}. Draw, and see the estimates gather.`;
    }
    restart();
    return show;
  }
  return { formulas: { roundVariance, drawRound }, build };
});
