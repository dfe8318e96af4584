// To another place: the palette (Ctrl-K), the keys g and a letter between pages, and the menu of a narrow screen.
import { onKey } from "./page.js";
import { make } from "./words.js";

const SECOND_MS = 1500; // the letter comes within so long behind the g
const { prefix, query } = document.body.dataset;
const box = document.getElementById("palette"), field = document.getElementById("sought-place"), list = document.getElementById("places");
const pages = lettered([...document.querySelectorAll("#pages a")].map((link) => ({ title: link.textContent.trim(), href: link.href })));
let chosen = 0, second = null;

/** Each page with the first letter of its title that no page before it has. */
function lettered(some) {
  const taken = new Set();
  return some.map((one) => {
    const key = [...one.title.toLowerCase()].find((letter) => /[a-z]/.test(letter) && !taken.has(letter));
    taken.add(key);
    return { ...one, key };
  });
}

function places(words) {
  const sought = words.trim().toLowerCase(), found = pages.filter(({ title }) => title.toLowerCase().includes(sought));
  const more = new URLSearchParams(query);
  if (/^\d{1,18}$/.test(sought)) found.unshift({ title: `Cycle ${sought}`, href: `${prefix}/cycles/${sought}${query}` });
  if (sought) found.push({ title: `Cycles with “${words.trim()}”`, href: `${prefix}/cycles?${new URLSearchParams([...more, ["text", words.trim()]])}` });
  return found;
}

function show() {
  const found = places(field.value);
  chosen = Math.max(0, Math.min(chosen, found.length - 1));
  list.replaceChildren(...found.map(({ title, href, key }, at) => {
    const link = make("a", { href, tabindex: "-1" }, title, ...(key ? [make("kbd", {}, `g ${key}`)] : []));
    return make("li", { role: "option", id: `place-${at}`, "aria-selected": String(at === chosen) }, link);
  }));
  field.setAttribute("aria-activedescendant", `place-${chosen}`);
  list.children[chosen]?.scrollIntoView({ block: "nearest" });
}

function open() {
  field.value = "";
  chosen = 0;
  show();
  box.showModal();
}

field.addEventListener("input", () => { chosen = 0; show(); });
field.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    event.preventDefault();
    chosen += step;
    show();
  } else if (event.key === "Enter") {
    event.preventDefault();
    list.children[chosen]?.querySelector("a").click();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  event.preventDefault();
  if (!document.querySelector("dialog[open]")) open();
});
onKey("g", "and a letter: to another page; Ctrl-K names all of them", () => { second = Date.now(); });
document.addEventListener("keydown", (event) => {
  if (second === null || event.key === "g" || event.target.closest("input, textarea, select, dialog")) return;
  const to = Date.now() - second < SECOND_MS && pages.find(({ key }) => key === event.key);
  second = null;
  if (!to) return;
  event.stopImmediatePropagation(); // the letter is no key of this page
  location.href = to.href;
}, { capture: true });
const find = document.getElementById("find");
find.addEventListener("click", open);
find.classList.remove("unready");

const menu = document.getElementById("menu");
menu.addEventListener("click", () => menu.setAttribute("aria-expanded", String(menu.getAttribute("aria-expanded") !== "true")));
