// Before the first paint: the theme that was chosen, else the system's. Runs ahead of everything, so it is no module.
{
  const chosen = localStorage.getItem("conch-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  document.documentElement.dataset.scripted = ""; // the menu of a narrow screen opens by a press
}
