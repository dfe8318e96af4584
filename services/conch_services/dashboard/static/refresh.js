// Parts of a page that the server draws, drawn again once facts have come that they show: at most once a second.
//
// A part has data-on="kind kind …", hx-get with where it is drawn, and hx-trigger="stale".
import { follow, on } from "./live.js";

const AGAIN_MS = 1000; // between two drawings
const KEPT_MS = 2500; // for so long the server may show what it made before: drawn once more when it is over
const root = document.querySelector("[data-after]");
const stale = new Set(); // kinds that have come since
let last = 0;
let once = null; // draws once more

function draw() {
  if (!stale.size || document.hidden || Date.now() - last < AGAIN_MS) return;
  const drawn = [...stale];
  stale.clear();
  last = Date.now();
  show(drawn);
  clearTimeout(once);
  once = setTimeout(() => show(drawn), KEPT_MS);
}

function show(drawn) {
  for (const part of document.querySelectorAll("[data-on]")) {
    if (part.dataset.on.split(" ").some((kind) => drawn.includes(kind))) window.htmx.trigger(part, "stale");
  }
}

const kinds = new Set([...document.querySelectorAll("[data-on]")].flatMap((part) => part.dataset.on.split(" ")));
for (const kind of kinds) on(kind, () => stale.add(kind));
for (const kind of ["missed", "caught-up"]) on(kind, () => kinds.forEach((one) => stale.add(one)));
setInterval(draw, 250);
follow(Number(root.dataset.after), document.body.dataset.agent);
