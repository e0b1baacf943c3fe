// One document: how far it is, its sound, its text, and what can be done with it.
import { call, documentPath } from "./api.js";
import { follow } from "./follow.js";
import { seen } from "./list.js";
import { Player } from "./player.js";
import { number, reported, say } from "./say.js";
import { fold } from "./spoken.js";
import * as stored from "./stored.js";
import { Strip } from "./strip.js";
import {
  announce, clock, complain, element, language, moment, percent, roughly, spokenTime, stateWords, unfinished,
} from "./words.js";

let shown = null; // the document's JSON
let stop = null; // ends following it
let requests = null; // AbortController of what the page asks by itself about it
let current = null; // its id
let told = ""; // what was last announced of it
let ready = null; // promise of whether the player may go on after a break
let connected = true;
let left = () => {};
let noted = 0;
let chapters = [];
let described = null; // the part that is described

const player = new Player(element("audio"), { changed: () => drawPlayer(), lost: stillThere });
const strip = new Strip(chooseRow, (row) => {
  described = row.index;
  drawRedo();
});

fold("document-script", async (signal) => ({ script: await call(documentPath(current, "/script"), { signal }) }));

/** Show a document; `onLeave()` is called after it was deleted. */
export function open(id, onLeave) {
  close();
  current = id;
  left = onLeave;
  told = "";
  connected = true;
  shown = described = null;
  chapters = [];
  strip.clear();
  element("document-script").open = false;
  complain("document-note", "");
  const known = stored.documents().find((one) => one.id === id);
  element("document-title").textContent = known?.title || say("document");
  element("document-body").hidden = true;
  element("document-problem").hidden = true;
  element("document-facts").textContent = say("looking");
  complain("action-error", "");
  resume();
}

export function close() {
  rest();
  current = shown = null;
}

/** Ask and play nothing of it any more, until `resume()`. */
function rest() {
  if (!stop) return;
  keepPosition();
  stop();
  requests.abort();
  stop = requests = null;
  player.close();
}

function resume() {
  player.open(current, stored.position(current));
  watch();
}

function watch() {
  stop?.();
  requests = new AbortController();
  stop = follow(current, {
    signal: requests.signal,
    progress: draw,
    chunk: (row) => strip.update(row),
    rows: (whole) => {
      strip.show(whole.chunks, whole.language);
      chapters = whole.chapters ?? [];
      draw(whole);
    },
    gone: showGone,
    connected: (value) => {
      connected = value;
      if (shown) drawProgress();
    },
  });
}

function showGone(error) {
  element("document-body").hidden = true;
  player.close();
  const missing = error.status === 404;
  if (missing) stored.forget(current);
  element("document-facts").textContent = missing
    ? say("document.gone")
    : error.message;
  announce(element("document-facts").textContent);
}

function draw(next) {
  const renewed = shown && next.revision > shown.revision;
  const waited = shown?.redo?.waiting.length ?? 0;
  shown = next;
  document.title = `${unfinished(next) ? `${percent(next.progress)} · ` : ""}${next.title} · voxyard`;
  element("document-body").hidden = false;
  element("document-title").textContent = next.title;
  const facts = [next.author, next.voice, next.language && language(next.language), say("document.seed", { seed: next.seed }), moment(next.created)];
  element("document-facts").textContent = facts.filter(Boolean).join(" · ");
  complain("document-note", next.note ? say("document.note", { note: reported(next.note) }) : "");
  player.complete = next.state === "completed";
  drawProgress();
  drawProblem();
  drawPlayer();
  drawActions();
  drawChapters();
  drawRedo();
  seen(next);
  tell();
  if (renewed) player.renew();
  if (waited && next.redo && !next.redo.waiting.length) announce(redoWords());
}

function drawProgress() {
  const { progress } = shown;
  element("state-words").textContent = stateWords(shown);
  element("progress").value = progress.ratio;
  const words = [say("progress.parts", { done: progress.done, all: progress.chunks }), percent(progress)];
  if (progress.failed) words.push(say("progress.failed", { count: progress.failed }));
  if (unfinished(shown) && Number.isFinite(progress.eta_seconds)) words.push(say("progress.left", { time: roughly(progress.eta_seconds) }));
  if (shown.state === "completed") words.push(say("progress.sound", { time: clock(duration()) }));
  if (shown.reduced) words.push(say("progress.reduced"));
  if (!connected && unfinished(shown)) words.push(say("progress.lost"));
  element("progress-words").textContent = words.join(" · ");
}

function drawProblem() {
  const failed = shown.state === "failed";
  const words = failed ? failure() : shown.parked ? say("problem.parked", { reason: reported(shown.parked) }) : "";
  const place = element("document-reason");
  if (place.textContent !== words) place.textContent = words;
  element("document-problem").hidden = !words;
  element("retry").hidden = !shown.retriable;
}

function failure() {
  const reason = shown.reason || shown.error?.message;
  return say("problem.failed", { reason: reason ? reported(reason, shown.code) : say("problem.no_reason") });
}

/** Seconds of sound that are there, in order. */
function duration() {
  const last = strip.rows.findLast((row) => row.end_seconds !== null && row.end_seconds !== undefined);
  return Math.max(shown.audio?.ready_seconds ?? 0, last?.end_seconds ?? 0, player.reachable);
}

function drawPlayer() {
  if (!shown) return;
  const failed = shown.state === "failed";
  element("player").hidden = failed;
  const [seconds, total] = [player.position, duration()];
  element("play").textContent = player.playing ? say("player.pause") : say("player.listen");
  const slider = element("position");
  slider.max = Math.max(1, Math.ceil(total));
  slider.value = seconds;
  slider.setAttribute("aria-valuetext", say("player.of", { time: spokenTime(seconds), total: spokenTime(total) }));
  element("clock").textContent = `${clock(seconds)} / ${clock(total)}${unfinished(shown) ? "+" : ""}`;
  setWords(waitingWords());
  strip.follow(player.loaded || seconds > 0 ? seconds : null);
  drawChapters();
  if (player.playing && Math.abs(seconds - noted) > 2) keepPosition();
}

let hintUntil = 0; // a hint about a chosen part stays for a moment

function setWords(words) {
  const place = element("player-words");
  if (!words && Date.now() < hintUntil) return;
  if (place.textContent !== words) place.textContent = words;
}

function waitingWords() {
  if (player.broken) return say("player.broken");
  if (!player.waiting) return "";
  if (unfinished(shown)) return duration() > player.position ? say("player.loading") : say("player.waiting");
  return say("player.loading");
}

function drawActions() {
  const complete = shown.state === "completed";
  element("download").disabled = !complete;
  element("download").hidden = element("download-format").hidden = shown.state === "failed";
  element("download-words").textContent = complete || shown.state === "failed"
    ? ""
    : say("download.later");
  element("cancel").textContent = say(unfinished(shown) ? "cancel" : "document.delete");
}

function drawChapters() {
  element("chapters").hidden = chapters.length === 0;
  const list = element("chapter-list");
  if (list.children.length !== chapters.length) list.replaceChildren(...chapters.map(freshChapter));
  const position = player.loaded || player.position > 0 ? player.position : -1;
  chapters.forEach((chapter, index) => {
    const [item, known] = [list.children[index], chapter.start_seconds !== null];
    const [button, time, link] = item.children;
    item.dataset.level = chapter.level;
    button.textContent = chapter.title;
    button.disabled = !known || shown.state === "failed";
    button.toggleAttribute("aria-current", known && position >= chapter.start_seconds
      && !(chapters[index + 1]?.start_seconds <= position));
    time.textContent = known ? clock(chapter.start_seconds) : "";
    link.hidden = chapter.end_seconds === null || shown.state === "failed";
  });
}

function freshChapter(chapter) {
  const [item, button, link] = [document.createElement("li"), document.createElement("button"), document.createElement("a")];
  button.type = "button";
  button.className = "plain";
  button.dir = "auto";
  button.addEventListener("click", () => {
    player.seek(chapters[chapter.index].start_seconds);
    player.play();
  });
  link.textContent = "MP3";
  link.href = documentPath(current, `/audio?chapter=${chapter.index}&format=mp3&download=true`);
  link.download = "";
  link.setAttribute("aria-label", say("chapters.download", { title: chapter.title }));
  item.append(button, document.createElement("span"), link);
  return item;
}

function drawRedo() {
  element("redo").hidden = !(shown?.state === "completed" && described !== null);
  element("redo-part").textContent = described === null ? "" : say("redo.part", { part: described + 1 });
  const words = shown?.redo ? redoWords() : "";
  if (element("redo-words").textContent !== words) element("redo-words").textContent = words;
}

function redoWords() {
  const { waiting, failed } = shown.redo;
  const parts = (list) => say(list.length > 1 ? "redo.parts" : "redo.one", {
    parts: list.map((index) => number(index + 1)).join(`${say("comma")} `),
  });
  if (waiting.length) return say("redo.waiting", { parts: parts(waiting) });
  if (failed.length) return say("redo.failed", { parts: parts(failed.map((each) => each.index)), reason: reported(failed[0].reason) });
  return shown.revision ? say("redo.renewed") : "";
}

/** Say how it goes, at quarters and at its end: each part would be too much to listen to. */
function tell() {
  const quarter = Math.floor(shown.progress.ratio * 4) * 25;
  const words = unfinished(shown)
    ? `${stateWords(shown)}${quarter ? say("tell.percent", { count: quarter }) : ""}`
    : shown.state === "completed" ? say("tell.finished") : "";
  if (words && words !== told) announce(words);
  told = words || told;
}

function chooseRow(row) {
  if (shown.state === "failed") return;
  if (row.start_seconds === null || row.start_seconds === undefined) {
    hintUntil = Date.now() + 4000;
    element("player-words").textContent = row.state === "waiting"
      ? say("part.not_yet", { part: row.index + 1 })
      : say("part.not_before", { part: row.index + 1 });
    return;
  }
  hintUntil = 0;
  player.seek(row.start_seconds);
  player.play();
}

/** Whether the audio of the document is worth another try, after the player lost it. */
function stillThere() {
  ready ??= ask().finally(() => (ready = null));
  return ready;
}

async function ask() {
  const id = current;
  if (!id) return false;
  try {
    const fresh = await call(documentPath(id), { signal: requests?.signal });
    if (id !== current) return false;
    draw(fresh);
    return fresh.state !== "failed";
  } catch (error) {
    return error.status === 0 ? null : error.status >= 500;
  }
}

function keepPosition() {
  noted = player.position;
  if (shown) stored.setPosition(current, Math.round(player.position * 10) / 10);
}

element("play").addEventListener("click", () => player.toggle());
element("back").addEventListener("click", () => player.seek(player.position - 10));
element("forward").addEventListener("click", () => player.seek(Math.min(player.position + 10, duration())));
element("position").addEventListener("input", (event) => player.seek(Number(event.target.value)));
element("rate").addEventListener("change", (event) => (player.rate = Number(event.target.value)));
addEventListener("pagehide", () => current && keepPosition());

element("retry").addEventListener("click", async () => {
  complain("action-error", "");
  try {
    draw(await call(documentPath(current, "/retry"), { method: "POST" }));
    element("document-title").focus();
    watch();
  } catch (error) {
    complain("action-error", error.message);
  }
});

element("redo-part").addEventListener("click", async () => {
  complain("action-error", "");
  try {
    draw(await call(documentPath(current, `/chunks/${described}/redo`), { method: "POST", json: {} }));
    watch();
  } catch (error) {
    complain("action-error", error.message);
  }
});

element("download").addEventListener("click", async () => {
  complain("action-error", "");
  const id = current;
  try {
    await call(documentPath(id)); // an error shows here, and not as a file
  } catch (error) {
    complain("action-error", error.message);
    return;
  }
  const link = document.createElement("a");
  const format = element("format").value;
  const subtitles = ["srt", "vtt"].includes(format);
  link.href = documentPath(id, `/${subtitles ? "subtitles" : "audio"}?format=${format}&download=true`);
  link.download = "";
  link.click();
});

element("cancel").addEventListener("click", () => {
  const going = unfinished(shown);
  element("cancel-title").textContent = say(going ? "cancel.title" : "delete.title");
  element("cancel-words").textContent = say(going ? "cancel.words" : "delete.words", { title: shown.title });
  element("cancel-yes").textContent = say(going ? "cancel.yes" : "delete");
  element("cancel-dialog").showModal();
});

element("cancel-no").addEventListener("click", () => element("cancel-dialog").close());

element("cancel-yes").addEventListener("click", async () => {
  element("cancel-dialog").close();
  const [id, title] = [current, shown.title];
  complain("action-error", "");
  rest(); // what is asked while it goes would be answered with 404
  try {
    await call(documentPath(id), { method: "DELETE" });
  } catch (error) {
    if (error.status !== 404) {
      complain("action-error", error.message);
      if (id === current) resume();
      return;
    }
  }
  if (id === current) close();
  stored.forget(id);
  announce(say("document.deleted", { title }));
  left();
});
