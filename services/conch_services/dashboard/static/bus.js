// Dead letters: a press has one handled again, or given up; what came of it stands above, and the table is drawn again.
import { say } from "./page.js";
import { redraw } from "./parts.js";
import { sentence } from "./words.js";

const wrong = document.getElementById("wrong");
const now = document.querySelector("[data-after]");

async function act(button) {
  const { do: what, id } = button.dataset;
  if (what === "drop" && !confirm("Give this letter up? It stays on the stream as a fact and is listed no more.")) return;
  button.disabled = true;
  wrong.textContent = "";
  const answer = await fetch(`${document.body.dataset.prefix}/api/v1/dlq/${encodeURIComponent(id)}/${what}`, { method: "POST" }).catch(() => null);
  if (!answer) wrong.textContent = "The dashboard does not answer; nothing was done.";
  else if (!answer.ok) wrong.textContent = await sentence(answer);
  else say(`Letter ${id.slice(0, 8)} ${what === "drop" ? "is given up, and listed no more" : "is handed to its consumer once more"}.`);
  button.disabled = false;
  redraw("now");
}

now.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-do]");
  if (button) act(button);
});
