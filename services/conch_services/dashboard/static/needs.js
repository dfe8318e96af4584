// Needs and drives over the same cycles: their cursors go together.
import { charts } from "./charts.js";
import { on } from "./live.js";
import { zoom } from "./ranges.js";
import { series } from "./series.js";
import { given } from "./words.js";

const open = (cycle) => { location.href = `${document.body.dataset.prefix}/cycles/${cycle}${document.body.dataset.query}`; };
const each = { range: [-0.02, 1.02], sync: "needs", pick: open, zoom, title: "0 to 1" };
const draw = charts({ needs: each, drives: each });
const grow = series(given("data").most);

const colours = {}; // of the lines, by their names

function show() {
  const data = given("data");
  draw({ ...grow(data), colours: Object.assign(colours, data.colours) });
}
on("drawn", ({ id }) => { if (id === "now") show(); });
show();
