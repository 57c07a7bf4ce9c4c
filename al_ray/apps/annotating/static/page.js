// Keys, and forms that are sent until the server has stored them. The page works without this script, too.
"use strict";

const trouble = document.getElementById("trouble");
let busy = false;

function say(text) {
  trouble.textContent = text;
  trouble.hidden = !text;
}

// The same request, with the same id, is sent again after a lost connection: the server counts it once.
async function send(form, button) {
  const fields = new URLSearchParams(new FormData(form));
  if (button && button.name) fields.set(button.name, button.value);
  while (true) {
    try {
      const answer = await fetch(form.action, { method: "POST", body: fields });
      if (answer.ok) {
        window.location.assign(answer.url);
      } else {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        say(page.querySelector("main [role=alert]")?.textContent || `Not done: error ${answer.status}.`);
        busy = false;
      }
      return;
    } catch {
      say("No connection to the server. Your answer is not stored yet; it is sent again until it is.");
      await new Promise((done) => setTimeout(done, 1500));
    }
  }
}

document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-once]")) return;
  event.preventDefault();
  if (busy) return;
  busy = true;
  send(event.target, event.submitter);
});

document.addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
  // In a note letters are letters, also while the focus is on its title.
  const note = event.target.closest("details");
  if (note && event.key === "Escape") document.activeElement.blur();
  if (note || event.target.matches("input, textarea")) return;
  // On a keyboard of another script the key at the place of the letter.
  const letter = /^[a-z]$/i.test(event.key) ? event.key : event.code.replace(/^Key/, "");
  const target = document.querySelector(`[data-key="${CSS.escape(letter.toLowerCase())}"]:not(:disabled)`);
  if (!target || busy) return;
  event.preventDefault();
  target.click();
});

document.querySelector("form.answer details")?.addEventListener("toggle", (event) => {
  if (event.target.open) event.target.querySelector("textarea").focus();
});

// A page that was left and is shown again by the browser is as it was then.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) window.location.reload();
});

const waiting = document.querySelector("[data-waiting]");
if (waiting) {
  const shown = { stage: document.getElementById("stage"), done: document.getElementById("done"), left: document.getElementById("left") };
  let failures = 0, began = null;
  setInterval(async () => {
    let status;
    try {
      const answer = await fetch("/status");
      if (answer.redirected || !answer.ok) return;
      status = await answer.json();
    } catch {
      failures += 1;
      if (failures > 2) say("The server does not answer: the run has ended, or was stopped. The terminal where it was started says why.");
      return;
    }
    if (failures || status.state !== waiting.dataset.waiting) return window.location.reload();
    if (!shown.stage) return;
    if (!began || began.stage !== status.stage) began = { stage: status.stage, at: Date.now(), done: status.done };
    shown.stage.textContent = status.stage;
    if (status.total) {
      shown.done.max = status.total;
      shown.done.value = status.done;
      const speed = (status.done - began.done) / (Date.now() - began.at);
      shown.left.textContent = speed > 0 && status.done < status.total ? `about ${Math.ceil((status.total - status.done) / speed / 1000)} s left of this stage` : "";
    } else {
      shown.done.removeAttribute("value");
      shown.left.textContent = "";
    }
  }, 1000);
}
