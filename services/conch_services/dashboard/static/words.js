// Numbers and times as the server writes them (numerals.py), and elements that hold text and never markup.

const MINUS = "\u2212"; // as wide as a plus

/** With its sign and so many digits: +0.450; what rounds to nothing is +0.000 from either side. */
export function signed(value, digits = 3) {
  const text = fixed(value, digits);
  return text.startsWith(MINUS) ? text : `+${text}`;
}

/** With so many digits, a half away from nothing, by the shortest decimal text of the value: 0.5625 is 0.563. */
export function fixed(value, digits) {
  const [mantissa, exponent = "0"] = String(Math.abs(value)).split("e");
  const [whole, part = ""] = mantissa.split(".");
  const shift = Number(exponent) + digits - part.length;
  const all = BigInt(whole + part), unit = 10n ** BigInt(Math.abs(shift));
  const rounded = shift >= 0 ? all * unit : (2n * all + unit) / (2n * unit);
  const text = String(rounded).padStart(digits + 1, "0");
  const sign = value < 0 && rounded ? MINUS : "";
  return digits ? `${sign}${text.slice(0, -digits)}.${text.slice(-digits)}` : sign + text;
}

export function percent(share, digits = 1) {
  return `${fixed(100 * share, digits)}%`;
}

/** The time of day of an ISO 8601 time, here. */
export function clock(iso) {
  return new Date(iso).toLocaleTimeString("en-GB");
}

/** The day and the time of day of an ISO 8601 time, here. */
export function day(iso) {
  return `${new Date(iso).toLocaleDateString("sv-SE")} ${clock(iso)}`;
}

/** An element with these attributes and children; strings become text. */
export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** The data that the page was drawn from: the JSON in the element of this id. */
export function given(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

/** The words of an answer that is not ok, in one sentence. */
export async function sentence(answer) {
  const said = await answer.json().catch(() => ({}));
  return said.error ?? said.detail ?? `the dashboard answered ${answer.status}`;
}

/** Times of the server, which are UTC, as the clock here has them. */
export function localise(root) {
  for (const one of root.querySelectorAll("time[datetime]")) {
    one.textContent = "date" in one.dataset ? day(one.dateTime) : clock(one.dateTime);
    one.title = new Date(one.dateTime).toString();
  }
  for (const one of root.querySelectorAll("input[type=datetime-local][data-utc]")) {
    one.value = `${day(one.dataset.utc).replace(" ", "T")}`;
    delete one.dataset.utc;
  }
}
