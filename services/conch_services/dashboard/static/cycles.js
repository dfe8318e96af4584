// The list of cycles: j and k go from row to row.
import { onKey } from "./page.js";

function move(step) {
  const links = [...document.querySelectorAll("#list tbody td:first-child a")];
  const at = links.indexOf(document.activeElement);
  links[Math.max(0, Math.min(links.length - 1, at + step))]?.focus();
}
onKey("j", "down the list, to the older cycle; Enter opens it", () => move(1));
onKey("k", "up the list, to the newer cycle", () => move(-1));

// On a narrow screen the filters are folded behind a button that counts those that are set.
const form = document.getElementById("filters"), button = document.getElementById("unfold");
function unfold(open) {
  form.toggleAttribute("data-unfolded", open);
  button.setAttribute("aria-expanded", String(open));
}
button.addEventListener("click", () => unfold(!form.hasAttribute("data-unfolded")));
form.addEventListener("change", () => {
  const set = [...form.elements].filter((one) => one.name && one.type !== "hidden" && one.value).length;
  button.querySelector("span").textContent = set ? ` · ${set}` : "";
});

onKey("/", "search in the texts", (event) => {
  event.preventDefault();
  unfold(true);
  document.querySelector("[name=text]").focus();
});
