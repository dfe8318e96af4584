// On a page that asks to log in: a browser that has a session goes on with it, under the path that only its pages know.
// Ahead of everything, so it is no module. `data-way`: resume, again or forget; `data-next`: where one wanted to go.
{
  const { way, next } = document.currentScript.dataset;
  const prefix = localStorage.getItem("conch-prefix") ?? "";
  if (way === "forget") localStorage.removeItem("conch-prefix");
  else if (way === "again") location.replace(location.href); // now it comes from our own page, with the cookie
  else if (/^\/~[\w-]+$/.test(prefix) && !location.pathname.startsWith(`${prefix}/`)) location.replace(prefix + next + location.hash);
}
