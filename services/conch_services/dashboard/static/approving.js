// The act that waits for an approval: a press of its buttons decides.
import { say } from "./page.js";
import { redraw } from "./parts.js";
import { sentence } from "./words.js";

const { agent, prefix } = document.body.dataset;

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.dataset.act) return;
  event.preventDefault();
  const of = form.dataset.ofAgent ?? agent, verb = event.submitter.value, wrong = form.querySelector(".wrong");
  const part = form.closest("[data-on]").id; // the decision may be drawn, without this form, before it is answered
  const answer = await fetch(`${prefix}/api/v1/agents/${encodeURIComponent(of)}/${verb}`, {
    method: "POST", headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ act: form.dataset.act, reason: form.elements.reason.value }),
  }).catch(() => null);
  wrong.textContent = answer?.ok ? "" : answer ? await sentence(answer) : "The dashboard does not answer.";
  if (!answer?.ok) return;
  say(verb === "approve" ? "The act is approved." : "The act is denied.");
  redraw(part);
});
