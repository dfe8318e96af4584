// An alarm is acknowledged by a press of its button; then the part of the page that it stands in is drawn again.
import { say } from "./page.js";
import { redraw } from "./parts.js";
import { sentence } from "./words.js";

const { prefix } = document.body.dataset;

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-acknowledge]");
  if (!button) return;
  const { acknowledge: alarm, component, ofAgent } = button.dataset;
  button.disabled = true;
  const answer = await fetch(`${prefix}/api/v1/agents/${encodeURIComponent(ofAgent)}/alarms/acknowledge`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ alarm, component: component || null }),
  }).catch(() => null);
  button.disabled = false;
  if (!answer?.ok) return say(answer ? await sentence(answer) : "The dashboard does not answer.", true);
  say(`The alarm of ${ofAgent} is acknowledged.`);
  redraw(button.closest("[data-on]").id);
  redraw("alarm-count");
});
