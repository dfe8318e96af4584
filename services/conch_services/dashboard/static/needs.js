// Needs, drives and goals over the same cycles: their cursors go together.
import { charts } from "./charts.js";
import { on } from "./live.js";
import { series } from "./series.js";
import { given } from "./words.js";

const DASHES = [[], [8, 6], [3, 5], [12, 4, 3, 4]]; // goals' lines often lie on each other: through the gaps of one the other is seen
const open = (cycle) => { location.href = `${document.body.dataset.prefix}/cycles/${cycle}${document.body.dataset.query}`; };
const each = { range: [-0.02, 1.02], sync: "needs", pick: open };
const draw = charts({ needs: each, drives: each, goals: { ...each, looks: DASHES.map((dash) => ({ width: 2, dash })) } });
const grow = series(given("data").most);

on("drawn", ({ id }) => { if (id === "now") draw(grow(given("data"))); });
draw(grow(given("data")));
