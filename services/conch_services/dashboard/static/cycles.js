// The list of cycles: j and k go from row to row.
import { onKey } from "./page.js";

function move(step) {
  const links = [...document.querySelectorAll("#list tbody td:first-child a")];
  const at = links.indexOf(document.activeElement);
  links[Math.max(0, Math.min(links.length - 1, at + step))]?.focus();
}
onKey("j", "down the list, to the older cycle; Enter opens it", () => move(1));
onKey("k", "up the list, to the newer cycle", () => move(-1));
onKey("/", "search in the texts", (event) => {
  event.preventDefault();
  document.querySelector("[name=text]").focus();
});
