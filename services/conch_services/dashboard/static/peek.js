// A row of a cycle, pressed beside its link, opens a panel with the whole of it in short; the arrow keys go on from there.
const box = document.getElementById("peek"), place = document.getElementById("peeked");
let at = null; // the row whose cycle is shown

async function show(row) {
  const link = row?.querySelector("a[href*='cycles/']");
  if (!link) return;
  at?.removeAttribute("aria-current");
  at = row;
  at.setAttribute("aria-current", "true");
  const address = new URL(link.href);
  address.pathname = `${address.pathname}/peek`;
  await window.htmx.ajax("GET", address.pathname + address.search, { target: place, swap: "innerMorph" });
  if (!box.open && at) box.show();
}

const beside = (step) => document.getElementById(at?.id)?.[step > 0 ? "nextElementSibling" : "previousElementSibling"];

document.addEventListener("click", ({ target }) => {
  const row = target.closest("tr[data-cycle]");
  if (target.closest("#peek [data-close]")) box.close();
  else if (row && !target.closest("a, button, summary, input, label") && getSelection().isCollapsed) show(row);
});
box.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  show(beside(step));
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && box.open) box.close();
  if (event.key === " " && event.target.matches("tr[data-cycle] a")) {
    event.preventDefault();
    show(event.target.closest("tr"));
  }
});
box.addEventListener("close", () => {
  const row = document.getElementById(at?.id);
  row?.removeAttribute("aria-current");
  row?.querySelector("a").focus();
  at = null;
});
