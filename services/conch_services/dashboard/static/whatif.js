// Other weights: the server computes the totals anew as they are drawn; one press puts them in force.
import { chart } from "./charts.js";
import { on } from "./live.js";
import { say } from "./page.js";
import { zoom } from "./ranges.js";
import { given, sentence } from "./words.js";

const { agent, prefix, query } = document.body.dataset;
const form = document.getElementById("weights");
const open = (cycle) => { location.href = `${prefix}/cycles/${cycle}${query}`; };
const SERIES = [{ label: "in force", colour: "c1", width: 2 }, { label: "with these", colour: "c4", width: 2, dash: [6, 4] }];
let drawn = null, figure = null;

function draw() {
  const there = document.getElementById("whatif-chart");
  if (there !== figure) {
    drawn?.remove();
    figure = there;
    drawn = figure && chart(figure, { series: SERIES, title: "reward", newest: false, pick: open, zoom });
  }
  if (!drawn) return;
  const { x, lines } = given("whatif-data");
  drawn.set([x, ...SERIES.map(({ label }) => lines[label])]);
}

function told() {
  for (const one of form.querySelectorAll("input[type=range]")) one.nextElementSibling.textContent = Number(one.value).toFixed(3);
}

form?.addEventListener("input", told);
document.getElementById("as-now")?.addEventListener("click", () => {
  for (const one of form.querySelectorAll("input[type=range]")) one.value = one.dataset.now;
  told();
  form.requestSubmit();
});
on("drawn", ({ id }) => { if (id === "whatif-now") draw(); });
document.addEventListener("click", async (event) => {
  if (event.target.id !== "apply") return;
  const button = event.target, wrong = button.parentElement.querySelector(".wrong");
  button.disabled = true;
  const answer = await fetch(`${prefix}/api/v1/agents/${encodeURIComponent(agent)}/weights`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ weights: given("whatif-table") }),
  }).catch(() => null);
  button.disabled = false;
  wrong.textContent = answer?.ok ? "" : answer ? await sentence(answer) : "The dashboard does not answer.";
  if (answer?.ok) say(`Weight set ${(await answer.json()).version.slice(0, 12)} is in force from the next act on.`);
});
if (form) {
  draw();
  told(); // of a slider that was moved before this script was here
}
