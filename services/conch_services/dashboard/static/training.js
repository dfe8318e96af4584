// The reward of each generation, or policy, and the curves of a round, drawn again with what the server draws; and what a
// person asks of the trainer.
import { charts } from "./charts.js";
import { on } from "./live.js";
import { onKey, say } from "./page.js";
import { zoom } from "./ranges.js";
import { series } from "./series.js";
import { given, make, sentence } from "./words.js";

const { agent, prefix, query } = document.body.dataset;
const NAMES = { loss: "loss", eval_loss: "held-out loss", kl: "KL", margin: "margin" };
const open = (cycle) => { location.href = `${prefix}/cycles/${cycle}${query}`; };

const total = charts({ totals: { pick: open, zoom, title: "reward", looks: [{ width: 2 }] } });
const steps = charts({ losses: { unit: "step", title: "loss", plain: true, looks: [{ width: 2 }] }, drift: { unit: "step", title: "KL and margin, nats", looks: [{ width: 2 }] } });
const OF_FIGURE = { [NAMES.loss]: 1, [NAMES.eval_loss]: 3, [NAMES.kl]: 2, [NAMES.margin]: 4 };
const grow = series(given("data").most);
const known = {}; // colour of each policy or generation, by its name

function draw() {
  const { marks, round, deeds, colours, ...fresh } = given("data");
  Object.assign(known, colours);
  total({ ...grow(fresh), marks, colours: known });
  document.getElementById("round-charts").hidden = !round?.steps.length;
  if (round) {
    const of = (...names) => Object.fromEntries(names.filter((name) => name in round.lines).map((name) => [NAMES[name], round.lines[name]]));
    steps({ x: round.steps, lines: { losses: of("loss", "eval_loss"), drift: of("kl", "margin") }, colours: OF_FIGURE });
  }
  document.getElementById("stop").disabled = !deeds?.stop;
  document.getElementById("rollback").disabled = !deeds?.rollback;
  document.getElementById("promote").disabled = !deeds?.promote.length;
}

on("drawn", ({ id }) => { if (id === "now") draw(); });
draw();

// What is asked of the trainer, once it is confirmed.
const DEEDS = {
  run: ["Train now?", "A round begins as soon as there are enough rows, whatever the schedule says. The agent acts on meanwhile.", "Train"],
  stop: ["Stop the round?", "The round or trial in progress ends. What acts now goes on acting.", "Stop"],
  promote: ["Promote an adapter?", "It acts from the next cycle on, without a trial. What acts now stays loaded.", "Promote"],
  rollback: ["Roll back?", "A trial that runs is ended; without one, what acted before acts again from the next cycle on.", "Roll back"],
};
const box = document.getElementById("deed-box"), choice = document.getElementById("deed-adapter");
const wrong = box.querySelector(".wrong");
let verb = "";

for (const button of document.querySelectorAll("[data-deed]")) button.addEventListener("click", () => ask(button.dataset.deed));
onKey("r", "train now", () => ask("run"));
box.querySelector("[data-close]").addEventListener("click", () => box.close());

function ask(deed) {
  verb = deed;
  const [title, words, confirm] = DEEDS[deed];
  document.getElementById("deed-title").textContent = title;
  document.getElementById("deed-words").textContent = words;
  box.querySelector("button.main").textContent = confirm;
  wrong.textContent = "";
  choice.closest("label").hidden = deed !== "promote";
  if (deed === "promote") choice.replaceChildren(...given("data").deeds.promote.map(([value, label]) => make("option", { value }, label)));
  box.showModal();
}

box.querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = verb === "promote" ? { headers: { "Content-Type": "application/json" }, body: JSON.stringify({ adapter: choice.value }) } : {};
  const address = `${prefix}/api/v1/agents/${encodeURIComponent(agent)}/training/${verb}`;
  const answer = await fetch(address, { method: "POST", ...body }).catch(() => null);
  if (!answer?.ok) {
    wrong.textContent = answer ? await sentence(answer) : "The dashboard does not answer; nothing was asked.";
    return;
  }
  box.close();
  const { said } = await answer.json();
  say(said || "The trainer was asked; the page shows what comes of it.");
});
