// The rewards, drawn again by facts; the lags besides, every few seconds: one that falls is no fact.
import { away } from "./live.js";
import "./refresh.js";
import { make } from "./words.js";

const LAG_MS = 3000;

async function ask() {
  if (document.hidden || away()) return;
  const answer = await fetch(`${document.body.dataset.prefix}/rewards/lags`).catch(() => null);
  if (!answer?.ok) return; // the bus is away, and the banner says so
  const lags = await answer.json();
  for (const row of document.querySelectorAll("#components tr[data-scorer]")) {
    const lag = lags[`rule-${row.dataset.scorer}`] ?? lags[row.dataset.scorer];
    row.querySelector("[data-lag]").replaceChildren(lag ?? make("span", { class: "faint" }, "–"));
  }
}
setInterval(ask, LAG_MS);
document.addEventListener("visibilitychange", ask);
