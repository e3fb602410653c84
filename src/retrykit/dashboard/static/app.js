// What pages can do without and are better with: the reader's own time, copying, and progress that moves by itself.
"use strict";

const clock = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
const forms = {
  today: new Intl.DateTimeFormat(undefined, { ...clock, second: "2-digit" }),
  year: new Intl.DateTimeFormat(undefined, { ...clock, month: "short", day: "numeric" }),
  ever: new Intl.DateTimeFormat(undefined, { ...clock, month: "short", day: "numeric", year: "numeric" }),
};

function inZone(at) {
  const now = new Date();
  if (at.toDateString() === now.toDateString()) return forms.today.format(at);
  return (at.getFullYear() === now.getFullYear() ? forms.year : forms.ever).format(at);
}

function localise(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    time.title = time.getAttribute("datetime").replace("T", " ").replace(/\.\d+Z$/, " UTC");
    time.textContent = inZone(new Date(time.getAttribute("datetime")));
  }
}

function offerCopies(root) {
  for (const button of root.querySelectorAll("button.copy")) {
    if (!navigator.clipboard) continue; // over plain http only this machine itself has one
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.previousElementSibling.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
}

let seen = new Date();

async function follow(live) {
  let wait = 1000 * Number(live.dataset.live);
  let page = null;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (answer.ok) page = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch { /* the server is away: look again */ }
  const now = page && page.getElementById("live");
  if (now) {
    if (!now.dataset.live) { location.reload(); return; } // it has come to an end: other forms, another history
    localise(now);
    seen = new Date();
    live.replaceChildren(...now.childNodes);
  } else {
    wait = Math.max(wait, 5000);
    if (!live.querySelector(".stale")) {
      const note = document.createElement("p");
      note.className = "warning stale";
      note.setAttribute("role", "status");
      note.textContent = `The dashboard does not answer, or asks you to sign in again. These figures are of ${inZone(seen)}.`;
      live.prepend(note);
    }
  }
  setTimeout(follow, wait, live);
}

localise(document);
offerCopies(document);
const live = document.querySelector("[data-live]");
if (live) setTimeout(follow, 1000, live);

document.addEventListener("keydown", (event) => {
  const box = document.getElementById("q");
  if (event.key === "/" && box && !event.ctrlKey && !event.metaKey && !event.target.closest("input, textarea, select")) {
    event.preventDefault();
    box.focus();
  }
});
