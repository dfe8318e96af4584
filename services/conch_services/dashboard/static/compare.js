// The curves that are compared, and the blind vote: a press decides on the pair as the page Review does.
import { chart, DASHES } from "./charts.js";
import { redraw } from "./parts.js";
import { say } from "./page.js";
import { given, sentence } from "./words.js";

const { agent, prefix } = document.body.dataset;
const figure = document.getElementById("compare-chart"), vote = document.getElementById("vote");
const skipped = [];

if (figure) {
  const { x, lines, colours } = given("compare-data");
  const series = Object.keys(lines).map((label, at) => ({ label, colour: `c${colours[label]}`, width: 2, dash: DASHES[at] }));
  chart(figure, { series, unit: "act", title: "reward", newest: false }).set([x, ...Object.values(lines)]);
}

document.getElementById("begin-vote")?.addEventListener("click", ({ target }) => {
  target.disabled = true;
  target.textContent = "Looking for pairs…"; // of a long life that takes seconds
  redraw("vote");
});

vote?.addEventListener("click", async ({ target }) => {
  const pair = target.closest("[data-row]");
  if (!pair || !("better" in target.dataset)) return;
  const { better } = target.dataset, wrong = pair.querySelector(".wrong");
  for (const button of pair.querySelectorAll("button")) button.disabled = true;
  if (better) {
    const answer = await fetch(`${prefix}/api/v1/reviews/${pair.dataset.row}/prefer?agent=${encodeURIComponent(agent)}`, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ format: "dpo", better }),
    }).catch(() => null);
    wrong.textContent = answer?.ok ? "" : answer ? await sentence(answer) : "The dashboard does not answer.";
    if (!answer?.ok) return pair.querySelectorAll("button").forEach((button) => { button.disabled = false; });
    say("Your word is kept, and counts on the page Review.");
  } else {
    skipped.push(pair.dataset.row);
    vote.setAttribute("hx-get", `${prefix}/compare/vote?${vote.dataset.asked}&without=${skipped.join(",")}`);
  }
  redraw("vote");
});
