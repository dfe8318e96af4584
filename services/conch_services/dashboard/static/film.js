// The film of a life: frames of the log, a hundred cycles at a time, shown in the time that passed between them or faster.
import { onKey } from "./page.js";
import { clock, day, make } from "./words.js";

const film = document.getElementById("film");
const { agent, prefix } = document.body.dataset;
const $ = (id) => document.getElementById(id);
const LONGEST_GAP = 60; // seconds of the life: a longer pause is shown as so long
const AHEAD = 40; // frames left at which the next are fetched
const SVG = "http://www.w3.org/2000/svg";

const frames = []; // in order, from one place on; each with at: seconds of the film
let shown = -1, next = 0, asking = null, playing = false, ran = 0, before = 0;

async function fetchFrames() {
  asking ??= fetch(`${prefix}/film/frames?from=${next}&agent=${encodeURIComponent(agent)}`)
    .then((answer) => (answer.ok ? answer.json() : Promise.reject(answer)))
    .finally(() => { asking = null; });
  const mine = asking, from = next;
  const answer = await mine.catch(() => null);
  if (!answer || from !== next) return;
  next = answer.next;
  for (const one of answer.frames) {
    const last = frames.at(-1);
    frames.push({ ...one, at: last ? last.at + Math.min(LONGEST_GAP, Math.max(0, one.time - last.time)) : 0 });
  }
}

/** Go to the first frame from this cycle on; frames that are here are not fetched again. */
async function seek(cycle) {
  let at = frames.findIndex((one) => one.cycle >= cycle);
  if (at < 0 || frames[0].cycle > cycle) {
    frames.length = 0;
    next = cycle;
    await fetchFrames();
    at = frames.findIndex((one) => one.cycle >= cycle);
  }
  if (at < 0) return;
  ran = frames[at].at;
  show(at);
}

function show(at) {
  if (at === shown && frames[at].cycle === Number(film.dataset.at)) return;
  shown = at;
  const one = frames[at], iso = new Date(1000 * one.time).toISOString();
  film.dataset.at = one.cycle;
  $("place").value = one.cycle;
  $("place").setAttribute("aria-valuetext", `cycle ${one.cycle}, ${clock(iso)}, ${one.act}, ${one.total}`);
  $("film-at").textContent = `cycle ${one.cycle.toLocaleString("en")} · ${day(iso)} · ${one.outcome}`;
  $("film-thought").textContent = one.thought || "–";
  $("film-act").textContent = one.act;
  $("film-total").textContent = one.total;
  $("film-strip").setAttribute("aria-label", one.sum);
  $("film-strip").replaceChildren(...one.strip.map(([colour, x, width, taken]) => rect({ class: `of${colour}${taken ? " taken" : ""}`, x, width, y: taken ? 7 : 0, height: taken ? 3 : 6 })));
  $("film-parts").replaceChildren(...one.strip.map(([colour, , , taken, name, said]) => make("li", {}, make("i", { class: `swatch of${colour}${taken ? " taken" : ""}` }), make("span", {}, name), make("b", {}, said))));
  meters("film-needs", Object.entries(one.needs));
  meters("film-goals", one.goals);
}

function rect(attributes) {
  const made = document.createElementNS(SVG, "rect");
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function bar(level) {
  const drawn = document.createElementNS(SVG, "svg");
  for (const [name, value] of Object.entries({ class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" })) drawn.setAttribute(name, value);
  drawn.append(rect({ width: 100 * level, height: 8, class: level < 0.25 ? "bad" : "" }));
  return drawn;
}

function meters(id, some) {
  $(id).replaceChildren(...some.flatMap(([name, level]) => [make("dt", {}, name), make("dd", {}, bar(level), ` ${level.toFixed(2)}`)]));
}

function tick(now) {
  if (!playing) return;
  ran += Math.min(0.25, (now - before) / 1000) * Number($("speed").value);
  before = now;
  let at = shown;
  while (at + 1 < frames.length && frames[at + 1].at <= ran) at += 1;
  if (at !== shown) show(at);
  const left = frames.length - at, last = Number(film.dataset.last);
  if (left < AHEAD && next <= last) fetchFrames();
  if (left <= 1) ran = Math.min(ran, frames[at].at); // the film waits for its frames
  if (frames[at].cycle >= last) return play(false);
  requestAnimationFrame(tick);
}

function play(now) {
  playing = now && shown >= 0;
  $("play").textContent = playing ? "Pause" : "Play";
  $("play").setAttribute("aria-pressed", String(playing));
  if (!playing) return;
  before = performance.now();
  if (frames[shown].cycle >= Number(film.dataset.last)) seek(Number(film.dataset.first)).then(() => requestAnimationFrame(tick));
  else requestAnimationFrame(tick);
}

if (film) {
  $("play").addEventListener("click", () => play(!playing));
  $("place").addEventListener("input", () => seek(Number($("place").value)));
  onKey(" ", "play the film, or stop it", (event) => { if (event.target.closest("button, a, summary")) return; event.preventDefault(); play(!playing); });
  seek(Number(film.dataset.at));
}
