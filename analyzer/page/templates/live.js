// Copyright 2026 The Culprit Authors
// SPDX-License-Identifier: Apache-2.0

// Keeps the page up to date and adds the reader's own time. Without this script the page reads the same and stands still.
'use strict';

function localTimes() {
  if (new Date().getTimezoneOffset() === 0) return; // They are the same.
  for (const t of document.querySelectorAll('time[datetime]')) {
    if (t.dataset.local) continue;
    t.dataset.local = '1';
    const at = new Date(t.dateTime);
    t.append(' (' + at.toLocaleString([], {hour: '2-digit', minute: '2-digit', second: '2-digit', timeZoneName: 'short'}) + ')');
  }
}

// How long ago something was grows while the page is open.
function ages() {
  for (const e of document.querySelectorAll('[data-since]')) {
    const s = Math.max(0, Math.round((Date.now() - new Date(e.dataset.since)) / 1000));
    e.textContent = (s < 120 ? s + ' s' : s < 7200 ? Math.round(s / 60) + ' min' : s < 172800 ? (s / 3600).toFixed(1) + ' h' : Math.floor(s / 86400) + ' days') + ' ago';
  }
}

let busy = false, again = false;

async function refresh() {
  if (busy) { again = true; return; }
  busy = true;
  const live = document.getElementById('live');
  try {
    const answer = await fetch(location.href, {cache: 'no-store'});
    if (!answer.ok) throw new Error(answer.status);
    const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
    const main = document.querySelector('main'), fresh = next.querySelector('main');
    const open = [...main.querySelectorAll('details[open][id]')].map(d => d.id);
    const focused = document.activeElement && main.contains(document.activeElement) ? document.activeElement.id : '';
    // What somebody types is not taken from under their hands.
    if (document.querySelector('form[data-dirty]') || document.activeElement && document.activeElement.matches('input, select')) { again = true; return; }
    main.replaceWith(fresh);
    for (const id of open) { const d = document.getElementById(id); if (d) d.open = true; }
    if (focused) { const e = document.getElementById(focused); if (e) e.focus({preventScroll: true}); }
    localTimes();
    showButtons();
    live.textContent = 'Updated at ' + new Date().toLocaleTimeString();
  } catch (err) {
    live.textContent = 'The analyzer does not answer. This page may be out of date.';
  } finally {
    setTimeout(() => { busy = false; if (again) { again = false; refresh(); } }, 3000);
  }
}

// What the reader asked for is answered beside what the page says of itself, so that news does not take the answer away.

// Asks for another analysis of the job that the page is about.
document.addEventListener('click', async event => {
  const button = event.target.closest('button[data-job]');
  if (!button) return;
  const answered = document.getElementById('answer');
  button.disabled = true;
  answered.textContent = 'Asking the nodes again.';
  try {
    const answer = await fetch(button.dataset.ask, {
      method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify({job_id: button.dataset.job, job_labels: JSON.parse(button.dataset.labels), reason: 'asked on the page'}),
    });
    answered.textContent = answer.ok ? 'Asked. The page shows the answer in a few seconds.' : 'The analyzer refused: ' + answer.status;
  } catch (err) {
    answered.textContent = 'The analyzer does not answer.';
  }
  button.disabled = false;
});

// Records what somebody says of the verdict.
document.addEventListener('submit', async event => {
  const form = event.target.closest('form[data-url]');
  if (!form) return;
  event.preventDefault();
  const answered = document.getElementById('answer'), given = new FormData(form), said = {right: given.get('right') === 'true'};
  for (const name of ['class', 'cause', 'who', 'note']) if (given.get(name)) said[name] = given.get(name);
  try {
    const answer = await fetch(form.dataset.url, {method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(said)});
    if (!answer.ok) { answered.textContent = 'The analyzer refused: ' + (await answer.json()).error; return; }
    delete form.dataset.dirty;
    form.reset();
    document.activeElement.blur();
    await refresh();
    answered.textContent = 'Recorded. Thank you.';
  } catch (err) {
    answered.textContent = 'The analyzer does not answer.';
  }
});
document.addEventListener('input', event => {
  const form = event.target.closest('form[data-url]');
  if (form) form.dataset.dirty = '1';
});

// What needs the script to work is hidden without it.
function showButtons() {
  for (const e of document.querySelectorAll('button[data-job], form[data-url]')) e.hidden = false;
}

localTimes();
showButtons();
ages();
setInterval(ages, 1000);
// A browser has only a few connections for all its tabs: one that nobody looks at gives its own up.
let events = null;
function listen() {
  const live = document.getElementById('live');
  events = new EventSource(document.body.dataset.events);
  events.addEventListener('change', refresh);
  events.onerror = () => { live.textContent = 'Not connected to the analyzer. Trying again.'; };
  events.onopen = () => { live.textContent = 'This page updates by itself.'; };
}
if (document.body.dataset.events) {
  listen();
  document.addEventListener('visibilitychange', () => {
    if (document.hidden && events) {
      events.close();
      events = null;
    } else if (!document.hidden && !events) {
      listen();
      refresh();
    }
  });
}
if (document.body.dataset.poll) {
  document.getElementById('live').textContent = 'This page updates by itself.';
  setInterval(() => { if (!document.hidden) refresh(); }, 1000 * document.body.dataset.poll);
}
