// A team: a press asks it for another topology; what it answers is said, and the page is drawn again.
import { say } from "./page.js";
import { redraw } from "./parts.js";
import { sentence } from "./words.js";

const { agent, prefix } = document.body.dataset;

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-switch]");
  if (!button) return;
  const { switch: topology } = button.dataset;
  button.disabled = true;
  const answer = await fetch(`${prefix}/api/v1/agents/${encodeURIComponent(agent)}/switch`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ topology }),
  }).catch(() => null);
  button.disabled = false;
  if (!answer?.ok) return say(answer ? await sentence(answer) : "The dashboard does not answer.", true);
  const { reason } = await answer.json();
  say(reason === "same" ? `${agent} is a ${topology} already.` : `${agent} becomes a ${topology} at the end of this step.`);
  redraw("team-now");
});
