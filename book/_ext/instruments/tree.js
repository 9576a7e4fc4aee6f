/* Which design should you use: the questions, to click through. The answers so far stay, and each can be changed. */
fedstasExplorer.add("tree", (tools, data) => {
  "use strict";
  const { make, buttons } = tools;

  /* The keys of the nodes that one passes with the numbers of these answers. */
  function follow(answers) {
    const keys = [data.start];
    answers.forEach((n) => keys.push(data.nodes[keys[keys.length - 1]].answers[n][1]));
    return keys;
  }

  const sentence = (words) => words[0].toUpperCase() + words.slice(1) + ".";
  const isQuestion = (node) => node.answers.length > 1;

  function build(root, figure) {
    const path = make("ol", { class: "explorer-path" }, root), items = [];
    const acts = [["One answer back", () => back(answers.length - 1)], ["Start again", () => back(0)]];
    if (figure) acts.push(["Show the whole tree", toggle]);
    const [previous, again, whole] = buttons(root, acts);
    const told = make("p", { class: "explorer-told explorer-heard", role: "status" }, root);
    let answers = [];
    if (figure) {
      root.after(figure); // where it does not move the questions when it is shown
      whole.setAttribute("aria-controls", figure.id);
      whole.setAttribute("aria-expanded", "false");
    }

    function toggle() {
      figure.hidden = !figure.hidden;
      whole.textContent = figure.hidden ? "Show the whole tree" : "Hide the whole tree";
      whole.setAttribute("aria-expanded", String(!figure.hidden));
    }

    function back(count) {
      if (answers.length) grow(answers.slice(0, Math.max(0, count)));
    }

    /* The items of these answers: those that stay as they are keep their place, and the focus. */
    function grow(next) {
      let same = 0;
      while (same < answers.length && same < next.length && answers[same] === next[same]) same += 1;
      items.splice(same + 1).forEach(({ item }) => item.remove());
      answers = next;
      [previous, again].forEach((button) => button.setAttribute("aria-disabled", String(!answers.length)));
      const keys = follow(answers);
      for (let at = items.length; at < keys.length; at += 1) items.push(append(data.nodes[keys[at]], at));
      items.forEach(({ choices }, at) => choices.forEach((choice, n) => choice.setAttribute("aria-pressed", String(answers[at] === n))));
      const last = data.nodes[keys[keys.length - 1]];
      told.textContent = isQuestion(last) ? `${title(keys)}: ${last.text}`
        : `Advice: ${sentence(last.text)} Gain: ${sentence(last.gain)} Cost: ${sentence(last.cost)}`;
    }

    const title = (keys) => `Question ${keys.filter((key) => isQuestion(data.nodes[key])).length}`;

    function append(node, at) {
      const item = make("li", { class: isQuestion(node) ? "" : "explorer-advice" }, path);
      make("p", { class: "explorer-step" }, item, isQuestion(node) ? title(follow(answers).slice(0, at + 1)) : "Advice");
      make("p", { class: "explorer-question" }, item, node.text);
      [["Gain", node.gain], ["Cost", node.cost]].forEach(([what, words]) => {
        if (!words) return;
        const line = make("p", {}, item);
        make("strong", {}, line, what + ": ");
        line.appendChild(document.createTextNode(sentence(words)));
      });
      if (!isQuestion(node)) links(make("p", {}, item), node);
      const choices = buttons(item, node.answers.map(([words], n) => [isQuestion(node) ? words : "Then go on", () => grow([...answers.slice(0, at), n])]));
      choices[0]?.parentElement.setAttribute("role", "group");
      choices[0]?.parentElement.setAttribute("aria-label", isQuestion(node) ? `answers to: ${node.text}` : "after this advice");
      return { item, choices };
    }

    /* The section with the reasons, and the cells of the comparison that the gain is from. */
    function links(line, node) {
      const link = (words, anchor) => make("a", { href: `${data.page}#${anchor}` }, line, words);
      const say = (words) => line.appendChild(document.createTextNode(words));
      link("The reasons", node.link);
      node.cells.forEach(([words, anchor], n) => { say(n ? "; " : ". The cells of the comparison: "); link(words, anchor); });
      say(".");
      if (!node.method || node.method === "closed-form") return;
      say(" As an option: ");
      make("code", {}, line, `--method ${node.method}`);
    }

    grow([]);
    return () => {}; // text flows by itself
  }
  return { formulas: { follow }, build };
});
