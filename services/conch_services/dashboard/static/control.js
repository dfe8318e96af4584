// What a person can do with the agent: pause it and let it go on, tell it a word, add a goal.
import { on } from "./live.js";
import { say } from "./page.js";
import { agentIs } from "./standing.js";
import { make, sentence } from "./words.js";

const { agent, prefix } = document.body.dataset;
const $ = (id) => document.getElementById(id);
const control = $("control"), pause = $("pause");

/** Ask the API to do this with the agent. */
export function post(verb, body = {}) {
  return fetch(`${prefix}/api/v1/agents/${agent}/${verb}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  });
}

function stateIs(state) {
  control.dataset.state = state;
  pause.textContent = state === "paused" ? "Resume" : "Pause";
  pause.classList.toggle("main", state === "paused");
}

pause.addEventListener("click", async () => {
  const verb = control.dataset.state === "paused" ? "resume" : "pause";
  pause.disabled = true;
  const answer = await post(verb).catch(() => null);
  pause.disabled = !$("banner").hidden; // gone away meanwhile
  if (!answer?.ok) return say(answer ? await sentence(answer) : "The dashboard does not answer.", true);
  if (verb === "pause") agentIs("paused", "by request");
  else agentIs("running");
  say(verb === "pause" ? `${agent} waits before its next cycle.` : `${agent} goes on.`);
});

for (const name of ["tell", "goal"]) {
  const box = $(`${name}-box`);
  $(name).addEventListener("click", () => {
    box.showModal();
    $("talk").scrollTop = $("talk").scrollHeight;
  });
  box.querySelector("[data-close]").addEventListener("click", () => box.close());
  box.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const form = event.target, wrong = form.querySelector(".wrong");
    const values = Object.fromEntries(new FormData(form));
    const answer = await post(name, name === "goal" ? goal(values) : values).catch(() => null);
    wrong.textContent = answer?.ok ? "" : answer ? await sentence(answer) : "The dashboard does not answer.";
    if (answer?.ok) form.reset();
    if (answer?.ok && name === "goal") {
      box.close();
      say(`The goal is added: ${values.statement}`);
    }
  });
  $(name).classList.remove("unready");
}

function goal({ statement, kind, command, path, contains, priority }) {
  const check = kind === "file" ? { kind, path, contains: contains ? [contains] : [] } : { kind, ...(command && { command }) };
  return { statement, priority: Number(priority), check };
}

const goalForm = $("goal-box").querySelector("form");
goalForm.elements.kind.addEventListener("change", (event) => {
  for (const label of goalForm.querySelectorAll("[data-for]")) label.hidden = !label.dataset.for.split(" ").includes(event.target.value);
});

on("agent", ({ state }) => stateIs(state));

function heard(who) {
  return (fact) => {
    const list = $("talk");
    if (fact.seq <= Number(list.dataset.upto)) return; // the server drew it
    list.append(make("li", { class: who }, fact.text));
    while (list.children.length > 20) list.firstElementChild.remove();
    list.scrollTop = list.scrollHeight;
  };
}

on("message.received", heard("me"));
on("message.sent", heard("it"));
stateIs(control.dataset.state);
pause.classList.remove("unready");
