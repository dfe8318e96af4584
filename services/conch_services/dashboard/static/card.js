// The card of a review: fetched, drawn in the place of the one before, and what is wrong with it.
import { localise, sentence } from "./words.js";

/** Draw the card that the address answers with, unless another was asked for meanwhile; whether it was drawn. */
export async function draw(card, address, isCurrent) {
  const answer = await fetch(address, { headers: { "HX-Request": "true" } }).catch(() => null);
  if (!answer?.ok) {
    complain(card, answer ? await sentence(answer) : "The dashboard does not answer.");
    return false;
  }
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!isCurrent()) return false;
  const focused = card.contains(document.activeElement) ? document.activeElement.id : "";
  card.replaceChildren(...[...fresh.body.childNodes].map((node) => document.adoptNode(node)));
  localise(card);
  if (focused) document.getElementById(focused)?.focus();
  return true;
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
