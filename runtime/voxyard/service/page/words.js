// Times, sizes and states in words, and what the page says aloud.
import { LANGUAGE, number, say } from "./say.js";

const LANGUAGES = new Intl.DisplayNames([LANGUAGE], { type: "language" });
const TWO_DIGITS = new Intl.NumberFormat(LANGUAGE, { minimumIntegerDigits: 2 });
const TENTHS = new Intl.NumberFormat(LANGUAGE, { minimumFractionDigits: 1, maximumFractionDigits: 1, useGrouping: false });

export const element = (id) => document.getElementById(id);

/** `1:05` or `2:01:05`. */
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds || 0));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (value) => TWO_DIGITS.format(value);
  return hours ? `${number(hours)}:${two(minutes)}:${two(rest)}` : `${number(minutes)}:${two(rest)}`;
}

/** `1 minute 5 seconds`, for a screen reader. */
export function spokenTime(seconds) {
  const whole = Math.max(0, Math.floor(seconds || 0));
  const parts = [[Math.floor(whole / 3600), "hour"], [Math.floor(whole / 60) % 60, "minute"], [whole % 60, "second"]]
    .filter(([count]) => count)
    .map(([count, unit]) => say(count === 1 ? `time.${unit}` : `time.${unit}s`, { count }));
  return parts.join(" ") || say("time.seconds", { count: 0 });
}

/** `about 2 min`: no more exact than an estimate is. */
export function roughly(seconds) {
  if (seconds < 10) return say("roughly.few");
  if (seconds < 90) return say("roughly.seconds", { count: Math.round(seconds / 10) * 10 });
  if (seconds < 5400) return say("roughly.minutes", { count: Math.round(seconds / 60) });
  return say("roughly.hours", { count: TENTHS.format(seconds / 3600) });
}

export function size(bytes) {
  if (bytes < 1024) return say("size.bytes", { count: bytes });
  if (bytes < 1024 ** 2) return say("size.kib", { count: Math.round(bytes / 1024) });
  return say("size.mib", { count: TENTHS.format(bytes / 1024 ** 2) });
}

/** The language's name; the code itself where it has none. */
export function language(code) {
  if (!code) return say("language.any");
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
  return date.toLocaleString(locale(), today ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" });
}

/** The browser's own form of the page's language, where it has one: en-GB on an English page. */
const locale = () => navigator.languages.find((one) => one.split("-")[0] === LANGUAGE) ?? LANGUAGE;

export const percent = (progress) => say("percent", { count: Math.floor(100 * progress.ratio) });

export const unfinished = (shown) => shown.state === "pending" || shown.state === "processing";

/** A document's state in a few words. */
export function stateWords(shown) {
  if (shown.state === "completed") return say("state.completed");
  if (shown.state === "failed") return say("state.failed");
  if (shown.parked) return say("state.parked");
  if (shown.phase === "extracting" && unfinished(shown)) return say("state.extracting");
  return shown.state === "pending" ? say("state.pending") : say("state.processing");
}

/** A part's state: waiting, spoken, silenced or failed. */
export const chunkWords = (state) => say(`chunk.${state}`);

/** Have a screen reader say it when it has a moment. */
export function announce(words) {
  element("live").textContent = words;
}

/** Show an error beside what caused it, and tie it to the field; empty words take it away. */
export function complain(id, words, field = null) {
  const place = element(id);
  place.hidden = !words;
  place.dir = "auto"; // the service's own words are English
  place.textContent = words;
  if (!field) return;
  if (words) field.setAttribute("aria-invalid", "true");
  else field.removeAttribute("aria-invalid");
}
