// What changed of a part is put together with its last drawing: stream/increments.py says what goes over the wire.
const TYPE = "application/vnd.conch.increment+json";
const PIECE = /[^\n>," ]*[\n>," ]|[^\n>," ]+/g;
const drawn = new Map(); // part's id -> {digest, text} of its last drawing

/** What fetches the part of this id: as fetch() does, the answer whole. */
export function increments(id) {
  return async (address, request) => {
    const last = drawn.get(id);
    const answer = await fetch(address, { ...request, headers: { ...request.headers, "Conch-Drawn": last?.digest ?? "none" } });
    const digest = answer.headers.get("Conch-Digest");
    if (!digest) return answer;
    const text = answer.headers.get("Content-Type") === TYPE ? joined(last.text, await answer.json()) : await answer.text();
    drawn.set(id, { digest, text });
    return new Response(text, { status: answer.status, headers: answer.headers });
  };
}

function joined(text, made) {
  const pieces = text.match(PIECE) ?? [];
  return made.map((one) => (typeof one === "string" ? one : pieces.slice(...one).join(""))).join("");
}
