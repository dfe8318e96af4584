// A panel beside the page with a thing in short: a cycle, a component, a goal, a policy, a weight set, a dead letter, a note, a
// mark. A row (data-cycle, or data-peek with where the panel is drawn) opens it where it is pressed beside its link, or by a
// space on the link, and the arrow keys go on from there; a link with data-peek of its own opens it by a press.
const box = document.getElementById("peek"), place = document.getElementById("peeked");
const ROWS = "tr[data-cycle], tr[data-peek]";
let at = null; // the row or link whose thing is shown

function address(one) {
  if (one?.dataset.peek) return one.dataset.peek;
  const link = one?.querySelector("a[href*='cycles/']");
  if (!link) return null;
  const { pathname, search } = new URL(link.href);
  return `${pathname}/peek${search}`;
}

async function show(one) {
  const from = address(one);
  if (!from) return;
  at?.removeAttribute("aria-current");
  at = one;
  if (at.matches("tr")) at.setAttribute("aria-current", "true");
  await window.htmx.ajax("GET", from, { target: place, swap: "innerMorph" });
  if (!box.open && at) box.show();
}

const there = () => document.getElementById(at?.id) ?? at;
const beside = (step) => there()?.[step > 0 ? "nextElementSibling" : "previousElementSibling"];

document.addEventListener("click", (event) => {
  const { target } = event, row = target.closest(ROWS), link = target.closest("a[data-peek]");
  const plain = !(event.ctrlKey || event.metaKey || event.shiftKey || event.button);
  if (target.closest("#peek [data-close]")) box.close();
  else if (link && plain) {
    event.preventDefault();
    show(link);
  } else if (row && !target.closest("a, button, summary, input, label, select, pre") && getSelection().isCollapsed) show(row);
});
box.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
  if (!step || !at?.matches("tr") || event.target.closest("pre")) return;
  event.preventDefault();
  show(beside(step));
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && box.open) box.close();
  if (event.key === " " && event.target.matches("tr[data-cycle] a, tr[data-peek] a")) {
    event.preventDefault();
    show(event.target.closest("tr"));
  }
});
box.addEventListener("close", () => {
  const one = there();
  one?.removeAttribute("aria-current");
  (one?.matches("a") ? one : one?.querySelector("a"))?.focus();
  at = null;
});
