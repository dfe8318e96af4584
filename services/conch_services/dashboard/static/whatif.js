// Other weights: the server computes the totals anew as they are drawn; one press puts them in force.
import { chart } from "./charts.js";
import { follow } from "./live.js";
import { say } from "./page.js";
import { zoom } from "./ranges.js";
import { given, sentence } from "./words.js";

const { agent, prefix, query } = document.body.dataset;
const form = document.getElementById("weights");
let drawn = null;

function draw() {
  drawn?.remove();
  const figure = document.getElementById("whatif-chart");
  if (!figure) return void (drawn = null);
  const { x, lines } = given("whatif-data");
  drawn = chart(figure, {
    series: Object.keys(lines).map((label, at) => ({ label, colour: at ? "c4" : "c1", width: 2, dash: at ? [6, 4] : undefined })),
    pick: (cycle) => { location.href = `${prefix}/cycles/${cycle}${query}`; }, zoom,
  });
  drawn.set([x, ...Object.values(lines)]);
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
document.addEventListener("htmx:afterSettle", draw);
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
if (form) draw();
follow(given("place"), agent);
