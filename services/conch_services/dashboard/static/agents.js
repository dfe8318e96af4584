// The table of agents: a press pauses one or lets it go on, and names it.
import { onKey, say } from "./page.js";
import { redraw } from "./parts.js";
import { sentence } from "./words.js";

const { prefix } = document.body.dataset;

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-agent-verb]");
  if (!button) return;
  const { agentVerb: verb, ofAgent: agent } = button.dataset;
  button.disabled = true;
  const answer = await fetch(`${prefix}/api/v1/agents/${encodeURIComponent(agent)}/${verb}`, { method: "POST" }).catch(() => null);
  button.disabled = false;
  if (!answer?.ok) return say(answer ? await sentence(answer) : "The dashboard does not answer.", true);
  say(verb === "pause" ? `${agent} waits before its next cycle.` : `${agent} goes on.`);
  redraw("agents-now");
});

onKey("/", "find an agent", (event) => { event.preventDefault(); document.querySelector("main [name=search]").focus(); });
