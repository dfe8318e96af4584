// The live stream of this page: one connection, resumed by the browser behind the last place that it had.

const listeners = new Map(); // kind -> [listener]
let after = 0;

/**
 * Have `listener(fact)` called for every fact of this kind, `action.taken` say, or "*" for all. Beside facts there are
 * "state" ({state: what the bus and the connection are like, live}), "agent" ({state: of the agent}), "missed"
 * ({count}: the history has them) and "caught-up" ({}: after a connection was lost).
 */
export function on(kind, listener) {
  listeners.set(kind, [...(listeners.get(kind) ?? []), listener]);
}

/** Have those called who listen for this kind. */
export function tell(kind, said) {
  for (const listener of listeners.get(kind) ?? []) listener(said);
}

const HIDDEN_MS = 3000; // a page that is not seen for so long lets go of its connection: a browser has six for all of them
const REFUSED_MS = 5000; // before a server that refused is asked again
let source = null;
let lost = false;
let query = "";
let heard = new Set(); // kinds that the stream is asked for

/** Begin behind place `seq` of the stream, which the page was drawn from; of one agent, or of all. Facts of these kinds come,
 * and of those that something listens for; they are their kind and cycle alone, which is all that parts need; alarms and
 * messages are whole. */
export function follow(seq, agent, kinds) {
  after = seq;
  query = agent ? `&agent=${encodeURIComponent(agent)}` : "";
  hear([...listeners.keys(), ...kinds]);
  let hiding = null;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(close, HIDDEN_MS);
    else if (!source) open();
  });
}

/** Have facts of these kinds, too, from now on. */
export function hear(kinds) {
  const all = new Set([...heard, ...kinds.filter((kind) => kind.includes("."))]);
  if (all.size === heard.size && source) return;
  heard = all;
  if (source || !document.hidden) open(); // a page that is hidden opens it once it is seen again
}

const address = () => `${document.body.dataset.prefix}/live?after=${after}${query}&kinds=${[...heard].join(",")}`;

function close() {
  source?.close();
  source = null;
}

function open() {
  close();
  source = new EventSource(address());
  source.addEventListener("bus", (message) => {
    const { state } = JSON.parse(message.data);
    const again = lost;
    lost = false;
    tell("state", { state, live: state === "live" });
    if (again) tell("caught-up", {});
  });
  source.addEventListener("missed", (message) => tell("missed", JSON.parse(message.data)));
  source.addEventListener("anew", renew);
  source.onmessage = (message) => {
    const fact = JSON.parse(message.data), place = Number(message.lastEventId);
    if (place <= after) return; // met already
    after = place;
    tell(fact.kind, fact);
    tell("*", fact);
  };
  source.onerror = () => {
    lost = true;
    tell("state", { state: "connecting…", live: false });
    if (source.readyState === EventSource.CLOSED) refused(source);
  };
}

/** Not to be tried again by the browser itself: the session is over, or there are too many pages. */
async function refused(by) {
  const asking = new AbortController();
  const answer = await fetch(address(), { signal: asking.signal }).catch(() => null);
  asking.abort();
  if (answer?.status === 401) renew();
  else setTimeout(() => { if (source === by) open(); }, REFUSED_MS);
}

/** Whether the dashboard does not answer just now: what is asked of it would only fail. */
export function away() {
  return lost;
}

/** Load the page anew, as soon as no dialog is open: what is typed into one is not thrown away. */
export function renew() {
  const open = document.querySelector("dialog[open]");
  if (open) open.addEventListener("close", renew, { once: true });
  else location.reload();
}

/** Call `draw` at most four times a second, only after `touch()` was called, and only while the page is seen. */
export function paced(draw) {
  let dirty = false;
  setInterval(() => {
    if (dirty && !document.hidden) {
      dirty = false;
      draw();
    }
  }, 250);
  return { touch: () => { dirty = true; } };
}
