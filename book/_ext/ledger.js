// The chips of a legend as buttons: one verdict alone, of the core claims or of all rows, or everything.
// Without scripts all rows are there.
(() => {
  const rows = () => document.querySelectorAll("table.ledger > tbody > tr");
  const buttons = [...document.querySelectorAll(".ledger-legend .verdict-chip")].map((chip) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = chip.className;
    button.textContent = chip.textContent;
    button.title = "show these rows alone, or all again";
    chip.replaceWith(button);
    button.onclick = () => show(button.getAttribute("aria-pressed") === "true" ? null : button);
    return button;
  });
  function show(only) {
    const word = only && only.textContent.split(" ")[1];
    buttons.forEach((each) => each.setAttribute("aria-pressed", each === only));
    // Slips of the pen are folded, unless one verdict is chosen or a link leads to one.
    const target = document.querySelector(":target");
    document.querySelectorAll("details.ledger-slips").forEach((box) => {
      box.open = word !== null || (target !== null && box.contains(target));
    });
    const core = only !== null && only.closest(".of-core") !== null;
    rows().forEach((row) => {
      const has = (name) => row.classList.contains(name);
      row.hidden = word !== null && !(has(`is-${word}`) && (!core || has("is-core")));
    });
  }
  show(null);
  addEventListener("DOMContentLoaded", () => show(null)); // the rows stand below this script
  addEventListener("hashchange", () => show(null)); // a link may lead to a row that is hidden
})();
