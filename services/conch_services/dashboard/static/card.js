// The card of a review: the one that an address answers with, in the place of the one before, and what is wrong with it.

/** Draw the card that the address answers with, unless another is asked for meanwhile. */
export async function draw(card, address) {
  card.toggleAttribute("data-still", true); // no fact draws the one that was there before
  await window.htmx.ajax("GET", address, { source: card, target: card, swap: "outerMorph" });
  card.removeAttribute("data-still");
}

/** Have what goes wrong with a drawing said on the card. */
export function complains(card) {
  card.addEventListener("htmx:response:error", ({ detail }) => complain(card, `The dashboard answered ${detail.ctx.response.status}.`));
  card.addEventListener("htmx:error", () => complain(card, "The dashboard does not answer."));
}

/** Say on the card what is wrong. */
export function complain(card, words) {
  let place = card.querySelector(".wrong");
  if (!place) {
    place = document.createElement("p");
    place.className = "wrong";
    place.setAttribute("role", "alert");
    card.append(place);
  }
  place.textContent = words;
}
