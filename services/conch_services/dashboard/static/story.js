// The story: the chart of the life, and the clock of what happens now.
import "./approving.js";
import "./control.js";
import { lifeChart } from "./lifechart.js";
import { on } from "./live.js";
import { zoom } from "./ranges.js";
import { given } from "./words.js";

const { prefix, query } = document.body.dataset;
const $ = (id) => document.getElementById(id);
const draw = lifeChart($("curve"), {
  zoom,
  open: (cycle) => { location.href = `${prefix}/cycles/${cycle}${query}`; },
});

on("drawn", ({ id }) => { if (id === "life") draw(given("life-data")); });

const MOST_SECONDS = 3600; // of a clock: what began earlier goes on no more
let live = true;
function show() {
  const { began } = $("now").dataset;
  $("at").textContent = $("now-cycle").textContent;
  const seconds = Math.max(0, Math.round((Date.now() - Number(began)) / 1000));
  $("clock").textContent = began && live && seconds < MOST_SECONDS ? `${seconds} s` : "";
}
on("drawn", ({ id }) => { if (id === "now") show(); });
on("state", (now) => { live = now.live; show(); });
on("agent", ({ state }) => {
  const words = { silent: "does not answer", approval: "waits for you", mind: "waits for its mind", ended: "not running" };
  $("run-state").textContent = words[state] ?? state;
  $("run-state").classList.toggle("good", state === "running" || state === "asleep");
  $("now-title").firstChild.data = state === "ended" && $("now").dataset.began ? "At the end " : "Right now ";
});
setInterval(() => { if (!document.hidden) show(); }, 1000);

draw(given("life-data"));
