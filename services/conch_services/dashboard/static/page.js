// What every page does: its theme, its keys, and what it says of the bus and the connection.
import { on } from "./live.js";
import { localise } from "./words.js";

const root = document.documentElement;
const themes = ["auto", "light", "dark"];
const theme = document.getElementById("theme");
const AWAY_MS = 1500; // a connection that is back sooner is not worth a word

function turn() {
  const next = themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length];
  root.dataset.theme = next;
  localStorage.setItem("conch-theme", next);
  theme.textContent = `Theme: ${next}`;
}

theme.textContent = `Theme: ${root.dataset.theme}`;
theme.classList.remove("unready");
theme.addEventListener("click", turn);

const keys = new Map([["t", turn]]);

/** Have `press()` called when this key is pressed outside of fields and dialogs. */
export function onKey(key, press) {
  keys.set(key, press);
}

document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, select, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
  keys.get(event.key)?.(event);
});
document.getElementById("agent")?.addEventListener("change", (event) => event.target.form.requestSubmit());
localise(document);
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

const banner = document.getElementById("banner");
let away = null;
on("state", ({ state, live }) => {
  document.getElementById("state").textContent = state;
  document.getElementById("dot").dataset.state = live ? "live" : "away";
  clearTimeout(away);
  if (live) banner.hidden = true;
  else away = setTimeout(() => {
    banner.textContent = `Nothing new comes just now: ${state.replace(/[.…]?$/, ".")} What stands here is from the history; the page goes on by itself.`;
    banner.hidden = false;
  }, AWAY_MS);
});
