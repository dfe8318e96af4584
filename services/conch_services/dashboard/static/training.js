// The reward of each policy, drawn again with what the server draws.
import { chart } from "./charts.js";
import "./refresh.js";
import { given } from "./words.js";

const COLOURS = ["c1", "c2", "c3", "c4", "c5", "c7", "c8", "c6"];
const figure = document.getElementById("totals");
let names = "";
let set = null;

function draw() {
  const { cycles, policies } = given("data");
  const found = Object.keys(policies);
  if (found.join("\n") !== names) {
    names = found.join("\n");
    figure.querySelector(".plot").replaceChildren();
    figure.querySelector(".legend").replaceChildren();
    const open = (cycle) => { location.href = `${document.body.dataset.prefix}/cycles/${cycle}${document.body.dataset.query}`; };
    set = chart(figure, { series: found.map((label, place) => ({ label: label.slice(0, 8), colour: COLOURS[place % COLOURS.length], width: 2 })), pick: open }).set;
  }
  if (cycles.length) set([cycles, ...found.map((name) => policies[name])]);
  else figure.toggleAttribute("data-empty", true);
}

document.body.addEventListener("htmx:afterSettle", (event) => {
  if (!document.getElementById("now").contains(event.target)) return;
  draw();
});
draw();
