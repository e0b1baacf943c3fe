// The key's own voices: heard, deleted, uploaded from a file, mixed of two.
import { call } from "./api.js";
import { say } from "./say.js";
import { announce, complain, element, language } from "./words.js";
import * as voices from "./voices.js";

const FIELDS = {
  name: ["voice-name-error", "voice-name"], file: ["voice-file-error", "voice-file"],
  mix: ["mix-manner-error", "mix-manner"], "mix.manner": ["mix-manner-error", "mix-manner"], "mix.timbre": ["mix-timbre-error", "mix-timbre"],
  language: ["voice-language-error", "voice-language"], description: ["voice-description-error", "voice-description"],
};

let changed = async () => {};
let deleting = null; // id of the voice that the dialog asks about

/** Draw the list and the choices of a mix from the voices that were listed last. */
export function show() {
  const own = voices.all().filter((voice) => voice.uploaded);
  element("voices-empty").hidden = own.length > 0;
  element("voice-fold").hidden = !voices.taken();
  element("voices").classList.toggle("none", !voices.taken() && !own.length);
  const list = element("own-voices");
  const before = new Map([...list.children].map((item) => [item.dataset.id, item]));
  const items = own.map((voice) => {
    const item = before.get(voice.id) ?? fresh(voice.id);
    item.children[1].textContent = facts(voice);
    return item;
  });
  const wanted = new Set(items);
  for (const item of before.values()) if (!wanted.has(item)) item.remove(); // the others keep the keyboard's place
  items.forEach((item, index) => list.children[index] !== item && list.insertBefore(item, list.children[index] ?? null));
  for (const id of ["mix-manner", "mix-timbre"]) {
    const select = element(id);
    const chosen = select.value;
    select.replaceChildren(new Option(say("mix.choose"), ""), ...voices.grouped(voices.all()));
    select.value = voices.all().some((voice) => voice.id === chosen) ? chosen : "";
  }
}

function fresh(id) {
  const item = document.createElement("li");
  const [name, words, said] = ["strong", "span", "span"].map((tag) => document.createElement(tag));
  item.dataset.id = id;
  name.textContent = id;
  said.className = "hint said";
  said.setAttribute("role", "status");
  const buttons = document.createElement("div");
  buttons.append(button(say("voices.hear"), id, () => voices.hear(id, said)), button(say("document.delete"), id, () => askToDelete(id)));
  item.append(name, words, buttons, said);
  return item;
}

function button(words, id, pressed) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "plain";
  made.textContent = words;
  made.setAttribute("aria-label", `${words} ${id}`);
  made.addEventListener("click", pressed);
  return made;
}

function facts(voice) {
  const mixed = voice.mixed && say("mix.of", voice.mixed);
  return [voice.language && language(voice.language), mixed, voice.description].filter(Boolean).join(" · ");
}

function askToDelete(id) {
  deleting = id;
  complain("voices-error", "");
  element("voice-dialog-title").textContent = say("voices.delete.title", { id });
  element("voice-dialog").showModal();
}

async function remove() {
  const id = deleting;
  element("voice-dialog").close();
  voices.hush();
  try {
    await call(`v1/audio/voices/${encodeURIComponent(id)}`, { method: "DELETE" });
  } catch (error) {
    if (error.status !== 404) {
      complain("voices-error", error.message);
      return;
    }
  }
  await changed();
  announce(say("voices.deleted", { id }));
  element("voices-title").focus();
}

const mixing = () => element("voice-form").elements.source.value === "mix";

function showSource() {
  element("voice-upload").hidden = mixing();
  element("voice-mix").hidden = !mixing();
}

/** What is wrong with the form, shown beside it; the first field at fault, or null. */
function mistake() {
  for (const [place, field] of Object.values(FIELDS)) complain(place, "", element(field));
  complain("voice-form-error", "");
  element("voice-added").textContent = "";
  const wrong = [
    [!mixing() && !element("voice-file").files.length, "file", say("voices.missing.file")],
    [mixing() && !element("mix-manner").value, "mix.manner", say("voices.missing.manner")],
    [mixing() && !element("mix-timbre").value, "mix.timbre", say("voices.missing.timbre")],
    [!element("voice-name").value.trim(), "name", say("voices.missing.name")],
  ].filter(([missing]) => missing);
  for (const [, param, words] of wrong) complain(FIELDS[param][0], words, element(FIELDS[param][1]));
  return wrong.length ? element(FIELDS[wrong[0][1]][1]) : null;
}

function request() {
  const options = { name: element("voice-name").value.trim() };
  for (const [name, id] of [["language", "voice-language"], ["description", "voice-description"]]) {
    if (element(id).value.trim()) options[name] = element(id).value.trim();
  }
  if (mixing()) {
    const mix = { manner: element("mix-manner").value, timbre: element("mix-timbre").value };
    return { method: "POST", json: { ...options, mix } };
  }
  const form = new FormData();
  for (const [name, value] of Object.entries(options)) form.append(name, value);
  const [file] = element("voice-file").files;
  form.append("file", file, file.name);
  return { method: "POST", form };
}

function showError(error) {
  const [place, name] = FIELDS[error.param] ?? (!mixing() && error.status === 413 ? FIELDS.file : ["voice-form-error"]);
  const field = name ? element(name) : null;
  complain(place, error.message, field);
  field?.focus();
}

async function submit(event) {
  event.preventDefault();
  const adding = element("add-voice");
  if (adding.getAttribute("aria-disabled") === "true") return;
  const wrong = mistake();
  if (wrong) {
    wrong.focus();
    return;
  }
  adding.setAttribute("aria-disabled", "true"); // not `disabled`: the keyboard's place would be lost
  try {
    const { id } = await call("v1/audio/voices", request());
    for (const field of ["voice-name", "voice-file", "voice-language", "voice-description"]) element(field).value = "";
    await changed();
    element("voice-added").textContent = say("voices.added", { id });
  } catch (error) {
    showError(error);
  } finally {
    adding.removeAttribute("aria-disabled");
  }
}

/** A name for the voice of a file, where there is none yet. */
function suggestName() {
  const name = element("voice-name");
  const [file] = element("voice-file").files;
  if (!file || name.value.trim()) return;
  name.value = file.name.replace(/\.[^.]*$/, "").replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "").slice(0, 64);
}

/** Put a dropped file into the form. */
export function take(files) {
  element("voice-fold").open = true;
  element("voice-form").elements.source.value = "file";
  showSource();
  element("voice-file").files = files;
  suggestName();
  element("voice-name").focus();
}

/** Wire the list and the form; `reload()` asks for the voices again after one was added or deleted. */
export function start(reload) {
  changed = reload;
  element("voice-form").addEventListener("submit", submit);
  for (const radio of element("voice-form").elements.source) radio.addEventListener("change", showSource);
  element("voice-file").addEventListener("change", suggestName);
  element("voice-dialog-no").addEventListener("click", () => element("voice-dialog").close());
  element("voice-dialog-yes").addEventListener("click", remove);
  showSource(); // a browser may keep the choice over a reload
}
