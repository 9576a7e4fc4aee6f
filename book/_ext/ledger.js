// The chips of the legend as buttons: one verdict alone, or all. Without scripts all rows are there.
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
    rows().forEach((row) => { row.hidden = word !== null && !row.classList.contains(`is-${word}`); });
  }
  show(null);
  addEventListener("hashchange", () => show(null)); // a link may lead to a row that is hidden
})();
