// Finding a setting among all, and the word that the checks are under way.
import { onKey } from "./page.js";

const sought = document.getElementById("sought");
const changed = document.getElementById("changed");
const rows = [...document.querySelectorAll("#config tr[data-origin]")];

const groups = [...document.querySelectorAll("#config tbody")];
const open = new Set(); // the groups that a press unfolded; what is sought unfolds all that have it

function fold(group, folded) {
  group.toggleAttribute("data-folded", folded);
  group.querySelector(".fold").setAttribute("aria-expanded", String(!folded));
}

function filter() {
  const words = sought.value.trim().toLowerCase();
  const seeks = words !== "" || changed.checked;
  let any = false;
  for (const row of rows) {
    const shown = row.textContent.toLowerCase().includes(words) && !(changed.checked && row.dataset.origin === "default");
    row.hidden = !shown;
    any ||= shown;
  }
  for (const group of groups) {
    group.hidden = !group.querySelector("tr[data-origin]:not([hidden])");
    fold(group, !seeks && !open.has(group.dataset.group));
  }
  document.getElementById("none").hidden = any;
}

for (const group of groups) {
  group.querySelector(".fold").addEventListener("click", () => {
    const folded = !group.hasAttribute("data-folded");
    open[folded ? "delete" : "add"](group.dataset.group);
    fold(group, folded);
  });
}
sought.addEventListener("input", filter);
changed.addEventListener("change", filter);
onKey("/", "find a setting", (event) => { event.preventDefault(); sought.focus(); });

const checking = document.getElementById("checking");
document.body.addEventListener("htmx:before:request", () => { checking.hidden = false; });
document.body.addEventListener("htmx:finally:request", ({ detail }) => {
  checking.hidden = true;
  if (!detail.ctx.response?.raw.ok) document.getElementById("findings").textContent = "The checks could not be made: the dashboard did not answer as it should.";
});
filter();
