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
const steps = charts({ losses: { unit: "step", plain: true, looks: [{ width: 2 }] }, drift: { unit: "step", looks: [{ width: 2, colour: "c2" }, { width: 2, colour: "c4" }] } });
const grow = series(given("data").most);

function draw() {
  const { marks, round, deeds, ...fresh } = given("data");
  total({ ...grow(fresh), marks });
  document.getElementById("round-charts").hidden = !round;
  if (round) {
    const of = (...names) => Object.fromEntries(names.filter((name) => name in round.lines).map((name) => [NAMES[name], round.lines[name]]));
    steps({ x: round.steps, lines: { losses: of("loss", "eval_loss"), drift: of("kl", "margin") } });
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
