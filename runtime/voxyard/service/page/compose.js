// The form: a text or a file, a voice, and what few want to set.
import { call } from "./api.js";
import * as ownVoices from "./own-voices.js";
import { say } from "./say.js";
import { fold, ofText } from "./spoken.js";
import * as stored from "./stored.js";
import * as voices from "./voices.js";
import { announce, complain, element, language, size } from "./words.js";

const FIELDS = {
  text: ["source-error", "text"], input: ["source-error", "text"], file: ["source-error", "file"],
  voice: ["voice-error", "voice"], read: ["read-error", "read"], lexicon: ["lexicon-error", "lexicon"], cast: ["cast-error", "cast"], seed: ["seed-error", "seed"], title: ["title-error", "title"],
  author: ["author-error", "author"],
};

let file = null;
let submission = null; // the request, until it is accepted or changed: a repeated click starts no second document

/** Ask for the voices and show them. */
export async function loadVoices() {
  try {
    if (!(await voices.load())) return;
    complain("voice-error", "");
  } catch (error) {
    complain("voice-error", say("voice.none_shown", { reason: error.message }));
    return;
  }
  showVoices();
  ownVoices.show();
}

function showVoices() {
  const wanted = element("voice-filter").value.trim().toLowerCase();
  const all = voices.all();
  const matching = all.filter((voice) => described(voice).includes(wanted));
  const select = element("voice");
  const before = select.value || stored.voice();
  const byText = new Option(say("voice.by_text"), "");
  select.replaceChildren(...(all.length ? [byText] : []), ...voices.grouped(matching));
  if (matching.some((voice) => voice.id === before)) select.value = before;
  element("voice-count").textContent = wanted
    ? say(matching.length ? "voice.matching" : "voice.no_match", { some: matching.length, all: all.length })
    : all.length ? "" : say("voice.single");
}

const described = (voice) => `${voice.name} ${voice.id} ${voice.language ?? ""} ${language(voice.language)}`.toLowerCase();

/** Speak a sentence in the chosen voice. */
function preview() {
  const [words, voice] = [element("preview-words"), element("voice").value];
  if (voice) {
    voices.hear(voice, words);
    return;
  }
  voices.hush();
  words.textContent = say("voice.choose");
}

function choose(chosen) {
  file = chosen;
  submission = null;
  element("chosen").hidden = !file;
  element("text-field").hidden = Boolean(file);
  element("chosen-name").textContent = file ? `${file.name}${say("comma")} ${size(file.size)}` : "";
  complain("source-error", "", element("text"));
  if (file) announce(say("file.chosen", { name: file.name }));
}

/** What is wrong with the form, shown beside it; the first field at fault, or null. */
function mistake() {
  for (const [place, field] of Object.values(FIELDS)) complain(place, "", element(field));
  complain("form-error", "");
  const seed = element("seed").value.trim();
  if (seed && !(/^\d+$/.test(seed) && Number.isSafeInteger(Number(seed)))) {
    complain("seed-error", say("seed.wrong", { seed }), element("seed"));
    element("more").open = true;
    return element("seed");
  }
  if (element("read").value === "some" && !chosenKinds().length) {
    complain("read-error", say("kinds.missing"), element("read"));
    element("more").open = true;
    return document.querySelector("#kinds input");
  }
  for (const name of Object.keys(PAIRS)) {
    const { wrong } = pairs(name);
    if (!wrong) continue;
    complain(`${name}-error`, wrong, element(name));
    element("more").open = true;
    return element(name);
  }
  if (!file && !element("text").value.trim()) {
    complain("source-error", say("text.missing"), element("text"));
    return element("text");
  }
  return null;
}

const chosenKinds = () => [...document.querySelectorAll("#kinds input:checked")].map((box) => box.value);

/** What becomes words, as a request has it; null: as the service is set. */
function read() {
  const choice = element("read").value;
  return choice === "some" ? chosenKinds().join(",") || null : choice || null;
}

/** Fields of pairs, and the words for a line that is none. */
const PAIRS = { lexicon: "lexicon.wrong", cast: "cast.wrong" };

/** The lines of a field as {word: spoken}, or the first that is none. */
function pairs(name) {
  const found = Object.create(null); // a word may be __proto__
  for (const [index, line] of element(name).value.split("\n").entries()) {
    if (!line.trim()) continue;
    const [, left, right] = /^\s*([^:]*[^:\s])\s*:\s*(\S.*?)\s*$/.exec(line) ?? [];
    if (!left) return { wrong: say(PAIRS[name], { number: index + 1, line: line.trim() }) };
    found[left] = right;
  }
  return { found };
}

/** The options that decide which words are spoken. */
function reading() {
  const options = {};
  if (element("voice").value) options.voice = element("voice").value;
  if (read()) options.read = read();
  if (!file && element("markdown").checked) options.input_format = "markdown";
  for (const name of Object.keys(PAIRS)) {
    const { found } = pairs(name);
    if (found && Object.keys(found).length) options[name] = found;
  }
  return options;
}

/** The script of what the form holds. Throws an error in words. */
async function script(signal) {
  if (file) throw new Error(say("script.of_file"));
  if (!element("text").value.trim()) throw new Error(say("script.missing"));
  const wrong = Object.keys(PAIRS).map((name) => pairs(name).wrong).find(Boolean);
  if (wrong) throw new Error(wrong);
  return ofText({ text: element("text").value, ...reading() }, signal);
}

function request() {
  const options = { on_failure: element("on-failure").value, ...reading() };
  const seed = element("seed").value.trim();
  if (seed) options.seed = Number(seed);
  for (const name of ["title", "author"]) if (element(name).value.trim()) options[name] = element(name).value.trim();
  const key = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const headers = { "Idempotency-Key": key };
  if (!file) return { method: "POST", json: { text: element("text").value, ...options }, headers };
  const form = new FormData();
  for (const [name, value] of Object.entries(options)) form.append(name, name in PAIRS ? JSON.stringify(value) : value);
  form.append("file", file, file.name);
  return { method: "POST", form, headers };
}

function showError(error) {
  const [place, name] = FIELDS[error.param?.split(".")[0]] ?? (file && [413, 415].includes(error.status) ? FIELDS.file : ["form-error"]);
  const field = name ? element(name) : null;
  complain(place, error.message, field);
  if (field && element("more").contains(field)) element("more").open = true;
  field?.focus();
}

async function submit(event, accepted) {
  event.preventDefault();
  const button = element("start");
  if (button.getAttribute("aria-disabled") === "true") return;
  const wrong = mistake();
  if (wrong) {
    wrong.focus();
    return;
  }
  // Not `disabled`: the keyboard's place would be lost.
  button.setAttribute("aria-disabled", "true");
  button.textContent = say("start.sending");
  try {
    submission ??= request();
    const document = await call("v1/documents", submission);
    stored.add(document.id, document.title);
    if (element("voice").value) stored.setVoice(element("voice").value);
    clear();
    accepted(document);
  } catch (error) {
    showError(error);
  } finally {
    button.removeAttribute("aria-disabled");
    button.textContent = say("start");
  }
}

function clear() {
  for (const name of ["text", "title", "author", "file"]) element(name).value = "";
  choose(null);
}

/** Wire the form; `accepted(document)` is called with what the service took. */
export function start(accepted) {
  element("form").addEventListener("submit", (event) => submit(event, accepted));
  element("form").addEventListener("input", () => (submission = null));
  element("form").addEventListener("change", fold("text-script", script));
  element("voice-filter").addEventListener("input", showVoices);
  element("preview").addEventListener("click", preview);
  element("read").addEventListener("change", () => (element("kinds").hidden = element("read").value !== "some"));
  element("file").addEventListener("change", (event) => event.target.files[0] && choose(event.target.files[0]));
  element("remove-file").addEventListener("click", () => {
    element("file").value = "";
    choose(null);
    element("text").focus();
  });
  ownVoices.start(loadVoices);
  drop();
}

/** A file may be dropped anywhere on the page, so that a miss does not leave the page for the file. */
function drop() {
  const holds = (event) => event.dataTransfer?.types.includes("Files");
  const mark = (on) => element("drop").classList.toggle("over", on);
  addEventListener("dragover", (event) => {
    if (!holds(event)) return;
    event.preventDefault();
    mark(!element("compose").hidden);
  });
  addEventListener("dragleave", (event) => event.relatedTarget === null && mark(false));
  addEventListener("drop", (event) => {
    mark(false);
    if (!holds(event)) return;
    event.preventDefault();
    if (element("compose").hidden) return;
    const [dropped, ...more] = event.dataTransfer.files;
    if (voices.taken() && /\.npz$/i.test(dropped?.name)) return ownVoices.take(event.dataTransfer.files);
    if (dropped) choose(dropped);
    if (more.length) complain("source-error", say("file.many", { count: more.length + 1, name: dropped.name }));
  });
}
