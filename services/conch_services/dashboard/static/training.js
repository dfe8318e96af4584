// The reward of each generation, or policy, and the curves of a round, drawn again with what the server draws; and what a
// person asks of the trainer.
import { chart } from "./charts.js";
import { onKey, say } from "./page.js";
import "./refresh.js";
import { given, make, sentence } from "./words.js";

const { agent, prefix, query } = document.body.dataset;
const COLOURS = ["c1", "c2", "c3", "c4", "c5", "c7", "c8", "c6"];
const LINES = { loss: ["loss", "c1"], eval_loss: ["held-out loss", "c3"], kl: ["KL", "c2"], margin: ["margin", "c4"] };
const charts = new Map(); // figure's id -> {names, chart}

/** Draw these lines, {name: values}; the chart is made anew where the names are others. */
function lines(id, xs, found, options, marks = []) {
  const figure = document.getElementById(id), names = Object.keys(found);
  let there = charts.get(id);
  if (there?.names !== names.join("\n")) {
    there?.chart.remove();
    const series = names.map((name, place) => ({ label: LINES[name]?.[0] ?? name, colour: LINES[name]?.[1] ?? COLOURS[place % COLOURS.length], width: 2 }));
    there = { names: names.join("\n"), chart: chart(figure, { series, ...options }) };
    charts.set(id, there);
  }
  there.chart.set([xs, ...Object.values(found)], marks);
}

const open = (cycle) => { location.href = `${prefix}/cycles/${cycle}${query}`; };

function draw() {
  const { cycles, curves, marks, round, deeds } = given("data");
  lines("totals", cycles, curves, { pick: open }, marks);
  document.getElementById("round-charts").hidden = !round;
  if (round) {
    const of = (...names) => Object.fromEntries(names.filter((name) => name in round.lines).map((name) => [name, round.lines[name]]));
    lines("losses", round.steps, of("loss", "eval_loss"), { unit: "step", plain: true });
    lines("drift", round.steps, of("kl", "margin"), { unit: "step" });
  }
  document.getElementById("stop").disabled = !deeds?.stop;
  document.getElementById("rollback").disabled = !deeds?.rollback;
  document.getElementById("promote").disabled = !deeds?.promote.length;
}

document.body.addEventListener("htmx:afterSettle", (event) => {
  if (document.getElementById("now").contains(event.target)) draw();
});
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
