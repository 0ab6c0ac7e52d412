const SHOWN = 200;
const AGAIN_MS = 5000;
const state = document.getElementById("state");
const messages = document.getElementById("messages");
const seen = new Set();
let lastId = "";

/** Adds a line at the top, and removes those at the bottom. */
function show(text, kind = "") {
  const item = document.createElement("li");
  item.textContent = text;
  item.className = kind;
  messages.prepend(item);
  while (messages.children.length > SHOWN) messages.lastChild.remove();
}

/** Whether a row was shown before: rows are delivered at least once. */
function isRepeated(row) {
  if (seen.has(row)) return true;
  seen.add(row);
  if (seen.size > SHOWN * 10) seen.delete(seen.values().next().value);
  return false;
}

function connect() {
  const events = new EventSource(`events?after=${encodeURIComponent(lastId)}`);
  events.onopen = () => (state.textContent = "connected");
  events.onmessage = ({ data, lastEventId }) => {
    lastId = lastEventId;
    const { row, key, value, value_base64: base64 } = JSON.parse(data);
    if (!isRepeated(row)) show(`${key === undefined ? "" : `${key}: `}${value ?? base64 ?? "null"}`);
  };
  events.addEventListener("caught-up", () => (state.textContent = "live"));
  events.addEventListener("lost", () => show("some messages are missing here", "lost"));
  events.onerror = () => {
    state.textContent = "disconnected; trying again";
    // The browser reconnects by itself, unless the server has refused it.
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, AGAIN_MS);
  };
}

connect();
