/* A federation that trains: softmax regression in the plane, by MD sampling, by groups of least variance and by all. */
fedstasExplorer.add("train", (tools, data) => {
  "use strict";
  const { sum, generator, pairWeights, within, leastVariance, pick, make, number, slider, player, plane, clip, mark, key, frame } = tools;
  const C = data.centres.length, N = data.sizes.length, FAR = 2.2;
  const omega = data.sizes.map((n) => n / sum(data.sizes)), everyone = omega.map((_, k) => k);
  const DESIGNS = [["md", "MD sampling"], ["least", "least-variance strata"], ["all", "all clients"]];
  const SHAPES = ["discs", "squares", "triangles", "diamonds"];

  /* The examples of each client, [x, y, class] each: of its own class if `share` is 1, of any class if it is 0. */
  function examples(share) {
    return data.examples.map((list, k) => list.map(([mixed, other, dx, dy]) => {
      const c = mixed < share ? data.own[k] : other;
      return [data.centres[c][0] + dx, data.centres[c][1] + dy, c];
    }));
  }

  /* Scores of the classes; a model is C pairs of weights, then C biases, as PyTorch flattens a linear layer. */
  const scores = (model, x, y) => data.centres.map((_, c) => model[2 * c] * x + model[2 * c + 1] * y + model[2 * C + c]);

  function chances(model, x, y) {
    const s = scores(model, x, y), top = Math.max(...s), e = s.map((v) => Math.exp(v - top)), all = sum(e);
    return e.map((v) => v / all);
  }

  function gradient(model, list) {
    const found = new Array(3 * C).fill(0);
    list.forEach(([x, y, own]) => chances(model, x, y).forEach((p, c) => {
      const g = (p - (c === own ? 1 : 0)) / list.length;
      found[2 * c] += g * x;
      found[2 * c + 1] += g * y;
      found[2 * C + c] += g;
    }));
    return found;
  }

  /* What a client sends: its model after some steps on all its examples, less the model that it got. */
  function update(model, list) {
    let own = model;
    for (let j = 0; j < data.steps; j += 1) own = gradient(own, list).reduce((w, g, i) => { w[i] -= data.lr * g; return w; }, own.slice());
    return own.map((v, i) => v - model[i]);
  }

  const loss = (model, clients) => sum(clients.flatMap((list) => list.map(([x, y, own]) => -Math.log(chances(model, x, y)[own])))) / sum(data.sizes);
  const apply = (model, cohort, updates) => model.map((v, i) => v + sum(cohort.map(([k, weight]) => weight * updates[k][i])));
  const full = everyone.map((k) => [k, omega[k]]);

  /* The groups: every client sends its gradient at the first model, once. */
  const group = (clients, m) => leastVariance(pairWeights(omega, clients.map((list) => gradient(new Array(3 * C).fill(0), list))), m, data.orders);

  /* Variance of a round of both designs at a model, and the loss there. */
  function variances(clients, labels, m, model) {
    const d = pairWeights(omega, clients.map((list) => update(model, list)));
    return { least: within(d, labels), md: within(d, labels.map(() => 0)) / m, loss: loss(model, clients) };
  }

  /* After some rounds in which all clients took part. */
  function trained(share, m, rounds) {
    const clients = examples(share), labels = group(clients, m);
    let model = new Array(3 * C).fill(0);
    for (let t = 0; t < rounds; t += 1) model = apply(model, full, clients.map((list) => update(model, list)));
    return { labels, ...variances(clients, labels, m, model) };
  }

  /* A cohort: clients and the weights of their updates. */
  function drawCohort(design, labels, m, random) {
    if (design === "all") return full;
    if (design === "md") return Array.from({ length: m }, () => [pick(everyone, omega, random), 1 / m]);
    return [...new Set(labels)].map((h) => {
      const members = everyone.filter((k) => labels[k] === h);
      return [pick(members, omega, random), sum(members.map((k) => omega[k]))];
    });
  }

  function build(root) {
    const { controls, figure, told } = frame(root);
    key(controls, DESIGNS);
    let random, clients, labels, runs, missed, times = 0;
    const m = slider(controls, "participants in a round", 2, 8, 1, data.m, String, restart);
    const share = slider(controls, "heterogeneity", 0, 100, 10, 100, (v) => `${v}\u00a0%`, restart);
    const play = player(controls, told, { one: "One round", many: "Ten rounds", jump: 10, every: 400, batch: 1, step, restart: () => { times += 1; restart(); } });
    const pair = make("div", { class: "explorer-pair" }), planes = {};
    root.insertBefore(pair, figure);
    DESIGNS.slice(0, 2).forEach(([design, name]) => {
      const side = make("div", {}, pair);
      make("p", { class: "explorer-title " + design }, side, name);
      planes[design] = make("div", { class: "explorer-plot" }, side);
    });

    function restart() {
      play.pause();
      random = generator(11 + times);
      clients = examples(share.get() / 100);
      labels = group(clients, m.get());
      const model = new Array(3 * C).fill(0), start = loss(model, clients);
      runs = Object.fromEntries(DESIGNS.map(([design]) => [design, { model, losses: [start], cohort: [] }]));
      missed = { md: 0, least: 0 };
      show();
    }

    /* How many classes no participant holds. */
    const missing = (cohort) => data.centres.filter((_, c) => !cohort.some(([k]) => clients[k].some((e) => e[2] === c))).length;

    function step(count) {
      for (let j = 0; j < count && runs.md.losses.length <= data.rounds; j += 1) DESIGNS.forEach(([design]) => {
        const run = runs[design];
        run.cohort = drawCohort(design, labels, m.get(), random);
        const updates = {};
        run.cohort.forEach(([k]) => { updates[k] = updates[k] || update(run.model, clients[k]); });
        run.model = apply(run.model, run.cohort, updates);
        run.losses.push(loss(run.model, clients));
        if (design !== "all") missed[design] += missing(run.cohort) > 0;
      });
      show();
      return runs.md.losses.length <= data.rounds;
    }

    function drawPlane(design, name) {
      const { model, cohort, losses } = runs[design], drawn = new Set(cohort.map(([k]) => k));
      const here = planes[design], width = here.clientWidth;
      const p = plane(here, `${name}: regions of the ${C} classes after ${losses.length - 1} rounds` + (drawn.size ? `; drawn are clients ${[...drawn].map((k) => k + 1).join(", ")}` : ""),
        [-FAR, FAR], [-FAR, FAR], { ticksX: false, ticksY: false, bare: true, left: 10, least: 120, height: Math.min(250, Math.max(150, width)) });
      const corners = [[-FAR, -FAR], [FAR, -FAR], [FAR, FAR], [-FAR, FAR]];
      if (losses.length > 1) data.centres.forEach((_, c) => {
        const region = data.centres.reduce((polygon, __, other) => (other === c ? polygon
          : clip(polygon, ([x, y]) => { const s = scores(model, x, y); return s[c] - s[other]; })), corners);
        if (region.length) p.path(region, `region class-${c}`, true);
      });
      const faint = (k) => (cohort.length && !drawn.has(k) ? " faint" : "");
      clients.forEach((list, k) => list.forEach(([x, y, c]) => {
        p.parts.push(`<path class="example class-${c}${faint(k)}" d="${mark(c, p.px(x), p.py(y), faint(k) ? 2.4 : 3.4)}"/>`);
      }));
      p.finish();
    }

    function show() {
      DESIGNS.slice(0, 2).forEach(([design, name]) => drawPlane(design, name));
      const t = runs.md.losses.length - 1, last = (design) => runs[design].losses[t];
      const p = plane(figure, `Loss on all examples over rounds: after ${t} rounds ${DESIGNS.map(([design, name]) => `${name} ${number(last(design), 2)}`).join(", ")}`,
        [0, Math.max(20, t)], [0, 1.5], { x: "rounds", y: "loss on the examples of all clients", height: 210 });
      ["least", "all", "md"].forEach((design) => {
        if (t) p.path(runs[design].losses.map((v, j) => [j, Math.min(v, 1.5)]), "curve " + design);
      });
      p.finish();
      const found = variances(clients, labels, m.get(), runs.least.model), classes = SHAPES.slice(0, C).join(", ");
      if (!t) {
        told.textContent = `${N} clients hold ${sum(data.sizes)} examples of four classes (${classes}). `
          + `Each round asks ${m.get()} of them; their examples will be bright. Let the first round begin.`;
        return;
      }
      const gone = missing(runs.md.cohort), times_ = (count) => (count === 1 ? "1 round" : `${count} rounds`);
      told.textContent = `After ${times_(t)} the loss is ${number(last("md"), 2)} with MD sampling, ${number(last("least"), 2)} with least-variance strata, ${number(last("all"), 2)} if all clients take part. `
        + (gone ? `In this round MD drew no client with examples of ${gone > 1 ? `${gone} of the classes` : "one of the classes"}. ` : "")
        + `MD missed a class in ${missed.md} of ${times_(t)}, least-variance strata in ${missed.least}. `
        + (found.md > 0 ? `At this model a round of least-variance strata has ${number((100 * found.least) / found.md, 0)}\u00a0% of MD\u2019s variance.` : "");
    }
    restart();
    return show;
  }
  return { formulas: { trained, drawCohort }, build };
});
