// What every page does: its theme, its keys, and what it says of the connection.
import { on } from "./live.js";

const root = document.documentElement;
const themes = ["auto", "light", "dark"];

function turn() {
  const next = themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length];
  root.dataset.theme = next;
  localStorage.setItem("conch-theme", next);
}

document.getElementById("theme").addEventListener("click", turn);
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, select, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "t") turn();
});
document.getElementById("agent")?.addEventListener("change", (event) => event.target.form.requestSubmit());

on("state", ({ state }) => {
  document.getElementById("state").textContent = state;
  document.getElementById("dot").dataset.state = state === "live" ? "live" : "connecting";
});
