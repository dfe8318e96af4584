// The range of cycles in the address: from the form in the head of a page, and from a part of a chart that was drawn over.

/** The address of this page with the range from cycle `first` to cycle `last`; the rest of it stays. */
export function addressOf(first, last) {
  const address = new URL(location.href);
  for (const place of ["trail", "skip", "upto"]) address.searchParams.delete(place); // of the range before
  address.searchParams.set("range", `${Math.min(first, last)}-${Math.max(first, last)}`);
  return address.href;
}

/** Show the cycles from `first` to `last` alone. */
export function zoom(first, last) {
  location.href = addressOf(Math.max(0, Math.round(first)), Math.max(0, Math.round(last)));
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!("range" in form.dataset)) return;
  event.preventDefault();
  const [first, last] = ["from", "to"].map((name) => Number(form.elements[name].value));
  if (first > last) form.querySelector(".wrong").textContent = "The first cycle is the smaller one.";
  else zoom(first, last);
});
