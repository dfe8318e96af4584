// The live stream of this page. One connection, resumed by the browser behind the last place it had.

const listeners = new Map(); // kind -> [listener]
let source = null;
let after = null;

/** Have `listener(fact)` called for every fact of this kind ("*": of every kind; "state": {state} of the connection). */
export function on(kind, listener) {
  listeners.set(kind, [...(listeners.get(kind) ?? []), listener]);
}

function tell(kind, fact) {
  for (const listener of listeners.get(kind) ?? []) listener(fact);
}

/** Begin behind place `seq` of the stream: what the page was drawn from. */
export function follow(seq) {
  after = seq;
  source = new EventSource(`/live?after=${after}`);
  source.onopen = () => tell("state", { state: "live" });
  source.onerror = () => tell("state", { state: "connecting…" });
  source.onmessage = (message) => {
    const fact = JSON.parse(message.data);
    if (fact.seq <= after) return; // met already
    after = fact.seq;
    tell(fact.kind, fact);
    tell("*", fact);
  };
}

/** Call `draw` at most four times a second, and only after `touch()` was called. */
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
