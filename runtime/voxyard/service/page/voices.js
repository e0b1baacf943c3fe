// The voices of the service, as it lists them, and a sample of one.
import { call, fetchSound } from "./api.js";
import { LANGUAGE, say } from "./say.js";
import { element, language } from "./words.js";

const SAMPLES = {
  de: "Guten Tag. So klingt diese Stimme.", en: "Good morning. This is how this voice sounds.",
  fa: "صبح بخیر. این صدا این‌گونه است.", es: "Buenos días. Así suena esta voz.", fr: "Bonjour. Voici le son de cette voix.",
  hi: "नमस्ते। यह आवाज़ ऐसी है।", it: "Buongiorno. Questa voce suona così.", ja: "おはようございます。こんな声です。",
  ko: "안녕하세요. 이런 목소리입니다.", pl: "Dzień dobry. Tak brzmi ten głos.", pt: "Bom dia. É assim que esta voz soa.",
  ru: "Доброе утро. Так звучит этот голос.", tr: "Günaydın. Bu ses böyle.", zh: "早上好。这就是这个声音。",
};

let voices = [];
let uploads = true; // whether the service takes voices of users
let asked = 0; // an answer that comes after that to a later request is out of date

/** All that were listed last. */
export const all = () => voices;

/** Whether a voice may be added. */
export const taken = () => uploads;

/** Ask for the voices; false where a later request was made meanwhile. Throws Refused. */
export async function load() {
  const mine = (asked += 1);
  const answer = await call("v1/audio/voices");
  if (mine !== asked) return false;
  ({ voices, uploads } = answer);
  return true;
}

/** Voices for a select, by language; the reader's own first. */
export function grouped(some) {
  return [...Map.groupBy(some, (voice) => voice.language ?? "")].sort(byLanguage).map(([code, members]) => {
    const group = document.createElement("optgroup");
    group.label = language(code);
    group.append(...members.map((voice) => new Option(voice.name, voice.id)));
    return group;
  });
}

function byLanguage([one], [other]) {
  const own = LANGUAGE;
  return (other === own) - (one === own) || language(one).localeCompare(language(other));
}

let previewing = null; // AbortController of the sample that is being spoken
let speaker = null; // where its words are

/** Speak a sentence in a voice; how it goes is said in `words`. */
export async function hear(id, words) {
  hush();
  const audio = element("preview-audio");
  speaker = words;
  const mine = (previewing = new AbortController());
  words.textContent = say("voice.speaking");
  const spoken = voices.find((one) => one.id === id);
  const input = SAMPLES[spoken?.language?.split("-")[0]] ?? SAMPLES.en;
  const body = { model: "tts-1", input, voice: id, response_format: "mp3" };
  try {
    const sound = await fetchSound("v1/audio/speech", body, mine.signal);
    if (audio.src) URL.revokeObjectURL(audio.src);
    audio.src = URL.createObjectURL(sound);
    await audio.play();
    words.textContent = "";
  } catch (error) {
    if (mine === previewing && !mine.signal.aborted) words.textContent = error.message;
  }
}

/** End the sample that is being spoken or heard. */
export function hush() {
  previewing?.abort();
  element("preview-audio").pause();
  if (speaker) speaker.textContent = "";
}
