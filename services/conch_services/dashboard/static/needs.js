// Needs, drives and goals over the same cycles: their cursors go together; drawn again with what the server draws.
import { chart } from "./charts.js";
import "./refresh.js";
import { given } from "./words.js";

const COLOURS = ["c1", "c2", "c3", "c4", "c5", "c7", "c8", "c6"];
const DASHES = [[], [8, 6], [3, 5], [12, 4, 3, 4]]; // goals' lines often lie on each other: through the gaps of one the other is seen
const made = new Map(); // figure's id -> {names, set}
const open = (cycle) => { location.href = `${document.body.dataset.prefix}/cycles/${cycle}${document.body.dataset.query}`; };

function draw() {
  const data = given("data");
  for (const id of ["needs", "drives", "goals"]) {
    const names = Object.keys(data[id]);
    const figure = document.getElementById(id);
    const any = names.some((name) => data[id][name].some((value) => value !== null));
    if (made.get(id)?.names !== names.join("\n")) {
      figure.querySelector(".plot").replaceChildren();
      figure.querySelector(".legend").replaceChildren();
      const series = names.map((label, place) => ({ label, colour: COLOURS[place % COLOURS.length], ...(id === "goals" && { width: 2, dash: DASHES[place % DASHES.length] }) }));
      const set = names.length ? chart(figure, { series, range: [-0.02, 1.02], sync: "needs", pick: open }).set : null;
      made.set(id, { names: names.join("\n"), set });
    }
    if (any) made.get(id).set([data.cycles, ...names.map((name) => data[id][name])]);
    else figure.toggleAttribute("data-empty", true);
  }
}

document.body.addEventListener("htmx:afterSettle", (event) => {
  if (!document.getElementById("now").contains(event.target)) return;
  draw();
});
draw();
