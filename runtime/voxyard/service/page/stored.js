// What this browser remembers: its documents, how far each was heard, the voice. Never a key, never a text.

const DOCUMENTS = "voxyard.documents";
const VOICE = "voxyard.voice";
const MOST = 200;

/** A kept string, or null; a browser may forbid storage, which costs the memory, not the use, of the page. */
export function read(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** Keep a string; null removes it. */
export function write(key, value) {
  try {
    if (value === null) localStorage.removeItem(key);
    else localStorage.setItem(key, value);
  } catch {
    // Full or forbidden.
  }
}

/** [{id, title, position}], newest first. */
export function documents() {
  try {
    const kept = JSON.parse(read(DOCUMENTS));
    return Array.isArray(kept) ? kept.filter((one) => typeof one?.id === "string") : [];
  } catch {
    return [];
  }
}

function keep(list) {
  write(DOCUMENTS, JSON.stringify(list.slice(0, MOST)));
}

export function add(id, title) {
  keep([{ id, title, position: 0 }, ...documents().filter((one) => one.id !== id)]);
}

export function forget(id) {
  keep(documents().filter((one) => one.id !== id));
}

/** Seconds into the audio at which listening stopped. */
export function position(id) {
  return documents().find((one) => one.id === id)?.position || 0;
}

export function setPosition(id, seconds) {
  keep(documents().map((one) => (one.id === id ? { ...one, position: seconds } : one)));
}

export const voice = () => read(VOICE);
export const setVoice = (id) => write(VOICE, id);
