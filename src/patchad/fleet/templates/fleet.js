// Show the series whose name or group has the wanted text, and those with events only if that is asked for.
"use strict";
const wanted = document.getElementById("wanted");
const eventful = document.getElementById("eventful");
function filter() {
  const text = wanted.value.trim().toLowerCase();
  for (const item of document.querySelectorAll("#series > li")) {
    const fits = item.dataset.text.toLowerCase().includes(text);
    item.hidden = !fits || (eventful.checked && item.dataset.events === "0");
  }
}
wanted.addEventListener("input", filter);
eventful.addEventListener("change", filter);
