// How it stands with the connection and with the agent, in the side bar of every page; and the banner where nothing
// new comes.
import { on, tell } from "./live.js";
import { clock, day, make } from "./words.js";

const AWAY_MS = 1500; // a connection that is back sooner is not worth a word
const GONE_MS = 6000; // a dashboard that is away for longer is not on its way back: its run has ended, most likely
const ASK_MS = 3000; // somebody may pause the agent elsewhere: no fact says so
const RENEW_MS = 1000; // while the agent waits for its mind: how far the reply has come
const { agent, prefix } = document.body.dataset;
const banner = document.getElementById("banner");
const said = document.getElementById("state");
const dot = document.getElementById("dot");
const stream = { state: said.textContent, live: dot.dataset.state === "live" };
let state = null; // of the agent, as it says it itself
let why = "";
let asks = ""; // what the agent waits for from its mind, in words
let since = null; // when the connection was lost
let left = null; // when this page saw a run leave a dashboard that stays
let away = null; // the timer from the loss to the banner
let asking = false;
let met = stream.live; // whether anything came live on this page

const WORDS = { paused: "paused", stopping: "stopping", starting: "starting", ended: "ended", approval: "waits for an approval", silent: "live; the agent does not answer", budget: "paused by its budget", asleep: "asleep" };

const isOver = () => stream.state.startsWith("no run is in progress"); // the dashboard is there, without a run
const isGone = () => !stream.live && stream.state === "connecting…" && since !== null && Date.now() - since >= GONE_MS;

function words() {
  if (isGone() || isOver()) return "not running";
  if (!stream.live) return stream.state;
  if (asks && (state === "running" || state === "mind")) return `waits for its mind: ${asks}`;
  if (state === null || state === "running") return "live";
  return [WORDS[state] ?? "waiting", why].filter(Boolean).join(": ");
}

/** An alarm that begins is announced once, however often its part is drawn again. */
const announced = new Set();
on("alarm.raised", ({ alarm, component, active, name, what }) => {
  const key = `${alarm} ${component ?? ""}`;
  if (active && !announced.has(key)) document.getElementById("announced").textContent = `${name}: ${what}`;
  if (active) announced.add(key);
  else announced.delete(key);
});

function show() {
  said.textContent = words();
  dot.dataset.state = isGone() || isOver() ? "over" : !stream.live ? "away" : state === null || state === "running" || state === "asleep" ? "live" : "paused";
  if (banner.hidden) return;
  const over = isGone() || isOver();
  banner.classList.toggle("calm", over);
  banner.setAttribute("role", over ? "status" : "alert");
  if (over && state !== "ended") {
    state = "ended";
    tell("agent", { state });
  }
  if (over) {
    const { run, acted, cycle } = banner.dataset;
    const copy = make("button", { type: "button", class: "quiet" }, "Copy");
    copy.addEventListener("click", () => copied(copy, run));
    banner.replaceChildren(make("strong", {}, ended(acted, cycle)), ` ${isGone() || left || acted ? "What stands here is the last state; this page goes on by itself. Started again with:" : "The first cycle appears here by itself. Begin with:"} `, make("code", {}, run), " ", copy);
    return;
  }
  const begin = met ? `Since ${clock(since.toISOString())} nothing new comes` : "Nothing new comes just now";
  banner.textContent = `${begin}: ${stream.state.replace(/[.…]?$/, ".")} What stands here is from the history${met ? " up to then" : ""}; the page goes on by itself.`;
}

/** When the run ended, as far as it is known: a dashboard of its run goes with it, one beside it knows the last act. */
function ended(acted, cycle) {
  if (left || isGone()) return `This run ended at ${clock((left ?? since).toISOString())}.`;
  if (!acted) return "Nothing has happened in this home yet.";
  const old = Date.now() - new Date(acted) > 20 * 3600e3;
  return `No run is in progress: the last one ended after cycle ${Number(cycle).toLocaleString("en")}, ${old ? day(acted) : clock(acted)}.`;
}

async function copied(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(banner.querySelector("code")); // a page that came without TLS may not copy
  }
}

/** Buttons that only a run answers, [data-live], are off while there is none. */
function reach(there) {
  banner.hidden = there;
  for (const one of document.querySelectorAll("[data-live]")) one.disabled = !there;
}

on("state", (now) => {
  Object.assign(stream, now);
  if (now.live) {
    met = true;
    since = left = null;
    clearTimeout(away);
    away = null;
    reach(true);
    ask();
  } else if (isOver()) {
    if (met) left ??= new Date();
    reach(false);
  } else if (since === null) { // each further try finds the same loss
    since = new Date();
    away = setTimeout(() => { reach(false); show(); away = setTimeout(show, GONE_MS - AWAY_MS + 50); }, AWAY_MS);
  }
  show();
});

/** What the agent says of its state, or a person has just made of it: every page is told, as "agent". */
export function agentIs(told, because = "", question = "") {
  state = told;
  why = because;
  asks = question;
  show();
  tell("agent", { state });
}

on("agent.slept", ask);
on("agent.woke", ask);
on("action.taken", () => { if (asks || (state !== "paused" && state !== "running")) ask(); }); // it may be slow still

async function ask() {
  if (document.hidden || since !== null || isOver() || asking) return;
  const before = state;
  asking = true;
  const answer = await fetch(`${prefix}/state?agent=${encodeURIComponent(agent)}`).catch(() => null);
  asking = false;
  if (!answer?.ok || before !== state) return; // a person was faster
  const now = await answer.json();
  if (now.state !== state || now.why !== why || now.asks !== asks) agentIs(now.state, now.why, now.asks);
  if (asks) setTimeout(ask, RENEW_MS);
}
setInterval(ask, ASK_MS);
document.addEventListener("visibilitychange", ask);
if (stream.live) ask();
