// Times, sizes and states in words, and what the page says aloud.

const LANGUAGES = new Intl.DisplayNames(["en"], { type: "language" });

export const element = (id) => document.getElementById(id);

/** `1:05` or `2:01:05`. */
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds || 0));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const tail = `${String(rest).padStart(2, "0")}`;
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${tail}` : `${minutes}:${tail}`;
}

/** `1 minute 5 seconds`, for a screen reader. */
export function spokenTime(seconds) {
  const whole = Math.max(0, Math.floor(seconds || 0));
  const parts = [[Math.floor(whole / 3600), "hour"], [Math.floor(whole / 60) % 60, "minute"], [whole % 60, "second"]]
    .filter(([count]) => count)
    .map(([count, unit]) => `${count} ${unit}${count === 1 ? "" : "s"}`);
  return parts.join(" ") || "0 seconds";
}

/** `about 2 min`: no more exact than an estimate is. */
export function roughly(seconds) {
  if (seconds < 10) return "a few seconds";
  if (seconds < 90) return `about ${Math.round(seconds / 10) * 10} s`;
  if (seconds < 5400) return `about ${Math.round(seconds / 60)} min`;
  return `about ${(seconds / 3600).toFixed(1)} h`;
}

export function size(bytes) {
  if (bytes < 1024) return `${bytes} bytes`;
  return bytes < 1024 ** 2 ? `${Math.round(bytes / 1024)} KiB` : `${(bytes / 1024 ** 2).toFixed(1)} MiB`;
}

/** The language's name; the code itself where it has none. */
export function language(code) {
  if (!code) return "Any language";
  try {
    return LANGUAGES.of(code) ?? code;
  } catch {
    return code;
  }
}

/** When a document was accepted; `created` is Unix seconds or an ISO date. */
export function moment(created) {
  const date = new Date(typeof created === "number" ? created * 1000 : created);
  if (Number.isNaN(date.getTime())) return "";
  const today = new Date().toDateString() === date.toDateString();
  return date.toLocaleString([], today ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" });
}

export const percent = (progress) => `${Math.floor(100 * progress.ratio)} %`;

export const unfinished = (shown) => shown.state === "pending" || shown.state === "processing";

/** A document's state in a few words. */
export function stateWords(shown) {
  if (shown.state === "completed") return "Finished";
  if (shown.state === "failed") return "Failed";
  if (shown.parked) return "On hold";
  if (shown.phase === "extracting" && unfinished(shown)) return "Its text is being read";
  return shown.state === "pending" ? "Waiting for its turn" : "Being spoken";
}

export const CHUNK_WORDS = { waiting: "waiting", spoken: "spoken", silenced: "left silent", failed: "failed" };

/** Have a screen reader say it when it has a moment. */
export function announce(words) {
  element("live").textContent = words;
}

/** Show an error beside what caused it, and tie it to the field; empty words take it away. */
export function complain(id, words, field = null) {
  const place = element(id);
  place.hidden = !words;
  place.textContent = words;
  if (!field) return;
  if (words) field.setAttribute("aria-invalid", "true");
  else field.removeAttribute("aria-invalid");
}
