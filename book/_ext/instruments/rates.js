/* Learning rate, design and budget: accuracies of recorded runs, at the rate and the budget that the reader chooses. */
fedstasExplorer.add("rates", (tools, data) => {
  "use strict";
  const { make, number, slider, buttons, plane, key, frame } = tools;
  const DESIGNS = [["md", "md", "MD sampling"], ["fedavg", "fedavg", "FedAvg"], ["clustered-similarity", "similar", "clustered by similarity"],
    ["fedstas", "written", "FedSTaS as written"], ["fedstas-unbiased", "should", "corrected FedSTaS"], ["least-variance", "least", "least-variance strata"]];
  const NAMES = Object.fromEntries(DESIGNS.map(([design, , name]) => [design, name]));

  const accuracy = (task, design, r, megabytes) => data.tasks[task].accuracy[design][r][Math.round(megabytes / data.step) - 1];

  /* The best rate of each design at a budget, and its accuracy there. */
  function bestRates(task, megabytes) {
    const { rates } = data.tasks[task];
    return Object.fromEntries(DESIGNS.map(([design]) => {
      const all = rates.map((_, r) => accuracy(task, design, r, megabytes)), best = Math.max(...all);
      return [design, [rates[all.indexOf(best)], best]];
    }));
  }

  function build(root) {
    const { controls, figure, told } = frame(root), HIGH = 95, low = data.lowest;
    let task = Object.keys(data.tasks)[0];
    const choices = buttons(controls, Object.keys(data.tasks).map((name) => [data.tasks[name].title, () => { task = name; show(); }]));
    const rates = () => data.tasks[task].rates;
    const rate = slider(controls, "learning rate", 0, rates().length - 1, 1, rates().indexOf(data.start.rate), (r) => String(rates()[r]), show);
    const budget = slider(controls, "budget", data.step, data.most, data.step, data.start.megabytes, (v) => `${v}\u00a0MB`, show);
    key(controls, DESIGNS.map(([, kind, name]) => [kind, name]));
    figure.className = "explorer-halves";
    const [overRates, overBudget] = [0, 1].map(() => make("div", { class: "explorer-plot" }, figure));
    const inside = (v) => Math.min(HIGH, Math.max(low, v));

    function drawOverRates(r, megabytes) {
      const best = bestRates(task, megabytes), log = rates().map(Math.log10);
      const p = plane(overRates, `Accuracy after ${megabytes} MB over the learning rate. Best: ${DESIGNS.map(([design, , name]) => `${name} ${number(best[design][1], 1)} % at ${best[design][0]}`).join("; ")}`,
        [log[0] - 0.1, log[log.length - 1] + 0.1], [low, HIGH], { ticksX: false, x: "learning rate", y: `accuracy after ${megabytes} MB, %`, height: 270 });
      log.forEach((v, i) => {
        p.text(p.px(v), p.height - p.bottom + 15, String(rates()[i]), "middle");
        p.line(p.px(v), p.height - p.bottom, p.px(v), p.height - p.bottom + 4, "axis");
      });
      p.line(p.px(log[r]), p.top, p.px(log[r]), p.height - p.bottom, "mark zero");
      DESIGNS.forEach(([design, kind]) => {
        p.path(log.map((v, i) => [v, inside(accuracy(task, design, i, megabytes))]), "curve " + kind);
        const at = Math.log10(best[design][0]);
        p.parts.push(`<circle class="best ${kind}" cx="${p.px(at).toFixed(1)}" cy="${p.py(inside(best[design][1])).toFixed(1)}" r="4.5"/>`);
      });
      p.finish();
    }

    function drawOverBudget(r, megabytes) {
      const p = plane(overBudget, `Accuracy over megabytes at the learning rate ${rates()[r]}: after ${megabytes} MB ${DESIGNS.map(([design, , name]) => `${name} ${number(accuracy(task, design, r, megabytes), 1)} %`).join("; ")}`,
        [0, data.most], [low, HIGH], { x: "megabytes, sent and received", y: `accuracy at rate ${rates()[r]}, %`, height: 270 });
      p.line(p.px(megabytes), p.top, p.px(megabytes), p.height - p.bottom, "mark zero");
      DESIGNS.forEach(([design, kind]) => p.path(data.tasks[task].accuracy[design][r].map((v, i) => [(i + 1) * data.step, inside(v)]), "curve " + kind));
      p.finish();
    }

    function show() {
      choices.forEach((choice, i) => choice.setAttribute("aria-pressed", String(Object.keys(data.tasks)[i] === task)));
      const r = rate.get(), megabytes = budget.get(), best = bestRates(task, megabytes);
      drawOverRates(r, megabytes);
      drawOverBudget(r, megabytes);
      const [a, b] = [data.reference, data.recommended], percent = (v) => `${number(v, 1)}\u00a0%`;
      const points = (v) => `${number(Math.abs(v), 1)} points ${v < 0 ? "less" : "more"}`;
      const [x, y] = [a, b].map((design) => accuracy(task, design, r, megabytes)), worst = accuracy(task, a, 0, megabytes);
      told.textContent = `After ${megabytes} MB at the rate ${rates()[r]}, ${NAMES[a]} reaches ${percent(x)} and ${NAMES[b]} ${percent(y)}, ${points(y - x)}. `
        + `At its own best rate (the disc), ${NAMES[a]} reaches ${percent(best[a][1])} (rate ${best[a][0]}) and ${NAMES[b]} ${percent(best[b][1])} (rate ${best[b][0]}), ${points(best[b][1] - best[a][1])}. `
        + `Tuning alone takes ${NAMES[a]} from ${percent(worst)} at the rate ${rates()[0]} to ${percent(best[a][1])}. `
        + `Each accuracy is a mean of ${data.tasks[task].seeds} runs, differences are taken before rounding, and what lies below ${low}\u00a0% is drawn on the axis.`;
    }
    return show;
  }
  return { formulas: { bestRates }, build };
});
