// The live stream of this page: one connection, resumed by the browser behind the last place that it had.

const listeners = new Map(); // kind -> [listener]
let after = 0;

/**
 * Have `listener(fact)` called for every fact of this kind, `action.taken` say, or "*" for all. Beside facts there are
 * "state" ({state: what the bus and the connection are like, live}), "missed" ({count}: the history has them) and
 * "caught-up" ({}: after a connection was lost).
 */
export function on(kind, listener) {
  listeners.set(kind, [...(listeners.get(kind) ?? []), listener]);
}

function tell(kind, said) {
  for (const listener of listeners.get(kind) ?? []) listener(said);
}

/** Begin behind place `seq` of the stream, which the page was drawn from; of one agent, or of all. */
export function follow(seq, agent = null) {
  after = seq;
  const query = new URLSearchParams({ after });
  if (agent) query.set("agent", agent);
  const source = new EventSource(`/live?${query}`);
  let lost = false;
  source.addEventListener("bus", (message) => {
    const { state } = JSON.parse(message.data);
    tell("state", { state, live: state === "live" });
    if (lost) tell("caught-up", {});
    lost = false;
  });
  source.addEventListener("missed", (message) => tell("missed", JSON.parse(message.data)));
  source.addEventListener("anew", () => location.reload());
  source.onmessage = (message) => {
    const fact = JSON.parse(message.data);
    if (fact.seq <= after) return; // met already
    after = fact.seq;
    tell(fact.kind, fact);
    tell("*", fact);
  };
  source.onerror = async () => {
    lost = true;
    tell("state", { state: "connecting…", live: false });
    if (source.readyState === EventSource.CLOSED) {
      // Refused: the session is over, or the server was not ready. A page without a session has to be opened anew.
      const answer = await fetch("/readyz").catch(() => null);
      setTimeout(() => (answer ? location.reload() : follow(after, agent)), 2000);
    }
  };
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
