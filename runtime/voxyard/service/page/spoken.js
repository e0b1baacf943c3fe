// What is spoken: the words that the engine gets of a text, asked for when its fold is opened.
import { call } from "./api.js";
import { say } from "./say.js";
import { element, language, roughly } from "./words.js";

const LONGEST = 4000; // characters that are sent of a text: its beginning

/** Show under `id` what `ask(signal)` answers, each time that the fold is opened; `again()` renews an open one. */
export function fold(id, ask) {
  const [place, facts, list] = [element(id), element(`${id}-facts`), element(`${id}-list`)];
  let mine = null; // AbortController of the last question
  async function show() {
    mine?.abort();
    list.replaceChildren();
    facts.textContent = "";
    if (!place.open) return;
    const { signal } = (mine = new AbortController());
    facts.textContent = say("looking");
    try {
      const { script, cut } = await ask(signal);
      if (signal.aborted) return;
      facts.textContent = [
        script.voice, script.language && language(script.language), say("script.length", { time: roughly(script.estimated_seconds) }),
        cut && say("script.beginning"),
      ].filter(Boolean).join(" · ");
      list.replaceChildren(...script.chunks.map((chunk) => item(chunk, script.language)));
    } catch (error) {
      if (!signal.aborted) facts.textContent = error.message;
    }
  }
  place.addEventListener("toggle", show);
  return show;
}

/** The words of a chunk, and below them how it is written, where that is something else. */
function item(chunk, code) {
  const line = document.createElement("li");
  line.lang = code ?? "";
  line.dir = "auto";
  line.append(span("spoken", chunk.words));
  const plain = (text) => text.replace(/\s+/g, " ").trim();
  if (plain(chunk.text) !== plain(chunk.words)) line.append(span("hint written", chunk.text));
  return line;
}

function span(name, text) {
  const made = document.createElement("span");
  made.className = name;
  made.dir = "auto";
  made.textContent = text;
  return made;
}

/** Script of a text that is not sent yet; of a long one that of its beginning. */
export async function ofText({ text, ...options }, signal) {
  const cut = text.length > LONGEST;
  const json = { ...options, text: cut ? beginning(text) : text };
  return { script: await call("v1/audio/script", { method: "POST", json, signal }), cut };
}

/** No half word, and no half character. */
function beginning(text) {
  const part = text.slice(0, LONGEST);
  const blank = part.lastIndexOf(" ");
  return blank > LONGEST / 2 ? part.slice(0, blank) : part.replace(/[\ud800-\udbff]$/, "");
}
