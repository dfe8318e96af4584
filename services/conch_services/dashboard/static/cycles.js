// The list of cycles: new ones are announced, never shoved in; j and k go from row to row.
import { follow, on } from "./live.js";
import { onKey } from "./page.js";
import { localise } from "./words.js";

const list = () => document.getElementById("list");
const fresh = new Set();

function announce() {
  const news = document.getElementById("news");
  if (!("first" in list().dataset)) return;
  for (const cycle of fresh) if (cycle <= Number(list().dataset.newest)) fresh.delete(cycle);
  news.hidden = fresh.size === 0;
  news.textContent = fresh.size === 1 ? "1 new cycle" : `${fresh.size} new cycles`;
}

on("experience.recorded", ({ cycle }) => {
  fresh.add(cycle);
  announce();
});

document.addEventListener("htmx:afterSettle", () => {
  localise(list());
  announce();
});

function move(step) {
  const links = [...list().querySelectorAll("tbody a")];
  const at = links.indexOf(document.activeElement);
  links[Math.max(0, Math.min(links.length - 1, at + step))]?.focus();
}
onKey("j", () => move(1));
onKey("k", () => move(-1));
onKey("/", (event) => {
  event.preventDefault();
  document.querySelector("[name=text]").focus();
});

follow(Number(list().dataset.after), document.body.dataset.agent);
