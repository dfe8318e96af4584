// The overview: its charts, which grow by what the server tells of them; and what a person says of a goal.
import { charts } from "./charts.js";
import { post } from "./control.js";
import { on } from "./live.js";
import { say } from "./page.js";
import { redraw } from "./parts.js";
import { zoom } from "./ranges.js";
import { series } from "./series.js";
import { given, sentence } from "./words.js";
import "./approving.js";

const { prefix, query } = document.body.dataset;
const open = (cycle) => { location.href = `${prefix}/cycles/${cycle}${query}`; };
const grow = series(given("data").most);
const colours = {}; // of the parts, by their names
const draw = charts({
  reward: { sync: "cycles", pick: open, zoom, title: "reward", looks: [{ colour: "c1", strength: 0.35, width: 1 }, { colour: "c1", width: 2, fill: 0.1, dash: [] }] },
  parts: { sync: "cycles", pick: open, zoom, title: "reward" },
  needs: { sync: "cycles", pick: open, zoom, title: "satisfaction", range: [-0.02, 1.02], digits: 2 },
});

function show() {
  const data = given("data");
  draw({ ...grow(data), colours: Object.assign(colours, data.colours) });
}
on("drawn", ({ id }) => { if (id === "now") show(); });
show();

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.dataset.goal) return;
  event.preventDefault();
  const verb = event.submitter.value, wrong = form.querySelector(".wrong");
  const answer = await post(`goal/${verb}`, { goal: form.dataset.goal }).catch(() => null);
  wrong.textContent = answer?.ok ? "" : answer ? await sentence(answer) : "The dashboard does not answer.";
  if (!answer?.ok) return;
  (verb === "accept" ? form : form.closest("li")).remove();
  say(verb === "accept" ? "The goal is accepted: it pays from now on." : "The goal is vetoed.");
  redraw("goals");
});
