// What tests/test_browser.py asks of a page. Each answer is a list of faults, empty if all is well.
const audit = (() => {
  const name = (node) => {
    const own = node.id ? "#" + node.id : [...node.classList].map((c) => "." + c).join("");
    return node.tagName.toLowerCase() + own;
  };
  const where = (node) => (node.parentElement ? name(node.parentElement) + " > " : "") + name(node);
  const seen = (node) => node.checkVisibility({opacityProperty: true, visibilityProperty: true});
  const article = () => document.querySelector("article.bd-article") || document.querySelector("main");

  // red, green, blue and alpha, from 0 to 1
  const colour = (text) => {
    const numbers = text.match(/-?[\d.]+(e-?\d+)?/g).map(Number);
    if (text.startsWith("color(srgb ")) return [...numbers, 1].slice(0, 4);
    if (!/^rgba?\(/.test(text)) throw new Error("unknown colour: " + text);
    return [...numbers.slice(0, 3).map((x) => x / 255), numbers[3] ?? 1];
  };
  const over = (top, ground) => top.slice(0, 3).map((x, i) => x * top[3] + ground[i] * (1 - top[3]));
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };

  // What is behind a node, and how much of its own ink is left by the opacities around it.
  const ground = (node, known) => {
    if (!node) return {found: [1, 1, 1], opacity: 1};
    if (!known.has(node)) {
      const behind = ground(node.parentElement, known);
      const style = getComputedStyle(node);
      known.set(node, {
        found: over(colour(style.backgroundColor), behind.found),
        opacity: behind.opacity * Number(style.opacity),
      });
    }
    return known.get(node);
  };

  // Text nodes, formulas (whose glyphs are no text nodes) and what was typed into fields.
  const inked = () => {
    const nodes = new Set(document.querySelectorAll("mjx-container, input[type=search], input[type=text]"));
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      const parent = walk.currentNode.parentElement;
      if (!/\S/.test(walk.currentNode.data)) continue;
      if (parent.closest("script, style, noscript, template, mjx-container, mjx-assistive-mml")) continue;
      nodes.add(parent);
    }
    return [...nodes].filter(seen);
  };

  return {
    // Opens all that is folded, stops what moves, and takes away what only screen readers are given.
    unfold() {
      document.querySelectorAll("details").forEach((d) => { d.open = true; });
      document.querySelectorAll(".admonition.toggle-hidden button.toggle-button").forEach((b) => b.click());
      const style = document.createElement("style");
      style.textContent = "*, *::before, *::after {transition: none !important; animation: none !important}" +
        "mjx-assistive-mml {display: none !important}";
      document.head.append(style);
    },

    faint() {
      const faults = new Map(), known = new Map();
      for (const node of inked()) {
        const style = getComputedStyle(node);
        const {found, opacity} = ground(node, known);
        const ink = colour(node instanceof SVGElement ? style.fill : style.color);
        ink[3] *= opacity;
        const size = parseFloat(style.fontSize);
        const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
        const value = contrast(over(ink, found), found);
        if (value >= (large ? 3 : 4.5)) continue;
        const key = `${where(node)} ${style.color} ${value.toFixed(2)}`;
        faults.set(key, `${where(node)} “${node.textContent.trim().slice(0, 30)}”: ${value.toFixed(2)}`);
      }
      return [...faults.values()];
    },

    // What is wider than the screen, though the page itself must not be.
    wide() {
      const room = document.documentElement.clientWidth;
      if (document.documentElement.scrollWidth <= room) return [];
      const boxes = (n) => n.closest("aside, .bd-sidebar-primary, .bd-sidebar-secondary, dialog");
      const out = [...document.body.querySelectorAll("*")].filter((n) => {
        if (boxes(n) || !seen(n) || n.getBoundingClientRect().right <= room + 1) return false;
        for (let p = n.parentElement; p; p = p.parentElement)
          if (getComputedStyle(p).overflowX !== "visible" && p !== document.body && p !== document.documentElement) return false;
        return true;
      });
      return [`${document.documentElement.scrollWidth} px: ${[...new Set(out.map(where))].slice(0, 5).join("; ")}`];
    },

    // Boxes in the text that hide a part of what they hold, without a way to it.
    clipped(print) {
      const hides = print ? /auto|scroll|hidden|clip/ : /hidden|clip/;
      const faults = [...article().querySelectorAll("*")].filter((n) =>
        n.scrollWidth > n.clientWidth + 2 && n.clientWidth > 2 && seen(n) &&
        hides.test(getComputedStyle(n).overflowX) && !n.closest("svg, mjx-math"));
      return [...new Set(faults.map((n) => `${where(n)}: ${n.scrollWidth} in ${n.clientWidth} px`))];
    },

    raw() {
      const faults = [...document.querySelectorAll("mjx-merror, [data-mjx-error]")]
        .map((n) => "error: " + (n.getAttribute("title") || n.dataset.mjxError || n.textContent));
      for (const n of document.querySelectorAll(".math"))
        if (!n.querySelector("mjx-container")) faults.push("not set: " + n.textContent.slice(0, 60));
      const walk = document.createTreeWalker(article(), NodeFilter.SHOW_TEXT);
      while (walk.nextNode()) {
        const {data, parentElement} = walk.currentNode;
        if (parentElement.closest("pre, code, script, style, mjx-container, .headerlink")) continue;
        const tex = data.match(/\\[a-zA-Z([]|\$[^$\s][^$]*\$|[a-zA-Z]_\{|\^\{/);
        if (tex) faults.push("raw: " + data.trim().slice(Math.max(0, tex.index - 20), tex.index + 40));
      }
      return faults;
    },

    fonts() {
      return [...document.fonts].filter((f) => f.status === "error").map((f) => f.family);
    },
  };
})();
