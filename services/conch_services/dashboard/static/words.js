// Numbers and times as the server writes them, and elements that hold text and never markup.

/** With its sign and so many digits: +0.450; what rounds to nothing is +0.000 from either side. */
export function signed(value, digits = 3) {
  const rounded = Number(value.toFixed(digits)) + 0;
  return (rounded < 0 ? "-" : "+") + Math.abs(rounded).toFixed(digits);
}

export function percent(share, digits = 1) {
  return `${(100 * share).toFixed(digits)}%`;
}

/** The time of day of an ISO 8601 time, here. */
export function clock(iso) {
  return new Date(iso).toLocaleTimeString("en-GB");
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
    const time = new Date(one.dateTime);
    one.textContent = "date" in one.dataset ? `${time.toLocaleDateString("sv-SE")} ${clock(one.dateTime)}` : clock(one.dateTime);
    one.title = time.toString();
  }
}
