// Dead letters: a press has one handled again, or given up; what came of it stands above, and the table is drawn again.
import { say } from "./page.js";
import { redraw } from "./parts.js";
import { sentence } from "./words.js";

const wrong = document.getElementById("wrong");
const now = document.querySelector("[data-after]");

async function act(button) {
  const { do: what } = button.dataset, ids = JSON.parse(button.dataset.ids), many = ids.length > 1;
  if (what === "drop" && !confirm(`Give ${many ? `these ${ids.length} letters` : "this letter"} up? ${many ? "They stay on the stream as facts and are" : "It stays on the stream as a fact and is"} listed no more.`)) return;
  button.disabled = true;
  wrong.textContent = "";
  let done = 0, first = "";
  for (const id of ids) { // after one that fails the others are tried, too
    const answer = await fetch(`${document.body.dataset.prefix}/api/v1/dlq/${encodeURIComponent(id)}/${what}`, { method: "POST" }).catch(() => null);
    if (answer?.ok) {
      done += 1;
      continue;
    }
    first ||= answer ? await sentence(answer) : "The dashboard does not answer; nothing was done.";
    if (!answer || answer.status === 401 || answer.status >= 500) break; // no other one would be answered
  }
  if (done < ids.length) wrong.textContent = many ? `${done} of ${ids.length} done, ${ids.length - done} not: ${first}` : first;
  else say(`${many ? `${done} letters are` : `Letter ${ids[0].slice(0, 8)} is`} ${what === "drop" ? "given up, and listed no more" : "handed to the consumer once more"}.`);
  button.disabled = false;
  redraw("now");
}

now.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-do]");
  if (button) act(button);
});
