// The memories: one is forgotten once that is confirmed.
import { onKey } from "./page.js";
import { sentence } from "./words.js";

const { agent, prefix, query } = document.body.dataset;
const shown = document.getElementById("memory");
const box = document.getElementById("forget-box");

const sought = document.querySelector("main [name=text]");
if (sought) onKey("/", "search the memories", (event) => { event.preventDefault(); sought.focus(); });

if (shown) {
  document.getElementById("forget").addEventListener("click", () => box.showModal());
  box.querySelector("[data-close]").addEventListener("click", () => box.close());
  box.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const address = `${prefix}/api/v1/memories/${shown.dataset.memory}?agent=${encodeURIComponent(agent)}`;
    const answer = await fetch(address, { method: "DELETE" }).catch(() => null);
    if (answer?.ok) location.href = `${prefix}/memory${query}`;
    else box.querySelector(".wrong").textContent = answer ? await sentence(answer) : "The dashboard does not answer; nothing was forgotten.";
  });
}
