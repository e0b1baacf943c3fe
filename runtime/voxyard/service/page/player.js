// Plays a document while it is made, and once it is there. Its audio comes in one of three ways:
//
// - finished: the WAV file itself, in which every browser can jump;
// - growing, where a MediaSource takes MP3 (Chromium, Safari): fed by stream.js, so that one can jump in it;
// - growing, elsewhere (Firefox): the element reads the stream on its own, and jumps within what it has.
import { documentPath } from "./api.js";
import { Feed, feedable } from "./stream.js";

const RETRY = 1500; // ms
const GRACE = 500; // ms
const TRIES = 5; // in a row, without a moment of sound between

export class Player {
  #audio;
  #id = null;
  #complete = false;
  #source = null; // "file", "feed", "element"; null before anything is loaded
  #feed = null;
  #wanted = null; // seconds to be at as soon as the audio is there
  #playing = false; // what the listener wants
  #timer = null;
  #breaks = 0;
  #changed;
  #lost;

  /** `changed()` is called when anything about it changes; `lost()` asks whether a broken stream is worth another try; null: nobody answers. */
  constructor(audio, { changed, lost }) {
    this.#audio = audio;
    this.#changed = changed;
    this.#lost = lost;
    for (const name of ["timeupdate", "play", "pause", "playing", "waiting", "seeked", "durationchange"]) {
      audio.addEventListener(name, () => this.#moved());
    }
    audio.addEventListener("timeupdate", () => audio.currentTime > 0 && !audio.paused && (this.#breaks = 0));
    for (const name of ["progress", "loadedmetadata", "canplay"]) audio.addEventListener(name, () => this.#reach());
    audio.addEventListener("ended", () => this.#ended());
    audio.addEventListener("error", () => this.#failed());
  }

  /** Get ready for a document; nothing is fetched before it is wanted. */
  open(id, position) {
    this.close();
    this.#id = id;
    this.#wanted = position || null;
  }

  close() {
    this.#unload();
    this.#id = null;
    this.#complete = this.#playing = false;
    this.#wanted = null;
    this.#breaks = 0;
  }

  /** The document is finished, or not: from then on its file can be had. */
  set complete(value) {
    if (value === this.#complete) return;
    this.#complete = value;
    if (this.#source === "element" && this.#wanted !== null) this.#load(this.#wanted);
  }

  get wanted() { return this.#wanted; }
  get position() { return this.#wanted ?? this.#audio.currentTime; }
  get playing() { return this.#playing; }
  get loaded() { return this.#source !== null; }

  /** Whether sound is wanted but not there yet. */
  get waiting() { return this.#playing && (this.#wanted !== null || this.#audio.readyState < 3); }

  /** Whether it was tried often enough. */
  get broken() { return this.#breaks >= TRIES; }

  /** Seconds that can be reached, as far as the element knows. */
  get reachable() {
    const { duration, buffered } = this.#audio;
    if (Number.isFinite(duration) && this.#source === "file") return duration;
    return buffered.length ? buffered.end(buffered.length - 1) : 0;
  }

  set rate(value) {
    this.#audio.defaultPlaybackRate = this.#audio.playbackRate = value;
  }

  toggle() {
    if (this.#playing) this.pause();
    else this.play();
  }

  play() {
    this.#playing = true;
    if (this.broken) this.#breaks = 0;
    if (!this.#source) this.#load(this.#wanted ?? 0);
    else if (this.#audio.ended) this.seek(0);
    this.#start();
    this.#changed();
  }

  pause() {
    this.#playing = false;
    this.#audio.pause();
    this.#changed();
  }

  /** Its sound has changed: go on in the new one from where it is. */
  renew() {
    const position = this.position;
    this.#unload();
    this.#wanted = position || null;
    if (this.#playing) this.#load(position);
    this.#changed();
  }

  /** Go there, now or as soon as there is something. */
  seek(seconds) {
    const target = Math.max(0, seconds);
    if (!this.#source) this.#wanted = target;
    else if (this.#within(target)) {
      this.#wanted = null;
      this.#audio.currentTime = target;
      if (this.#playing) this.#start();
    } else if (this.#source !== "file" && (this.#complete || target < this.#first())) this.#load(target);
    else this.#want(target);
    this.#changed();
  }

  #first() {
    return this.#audio.buffered.length ? this.#audio.buffered.start(0) : 0;
  }

  #within(seconds) {
    const ranges = this.#source === "file" ? this.#audio.seekable : this.#audio.buffered;
    for (let index = 0; index < ranges.length; index += 1) {
      if (seconds >= ranges.start(index) - 0.05 && seconds < ranges.end(index)) return true;
    }
    return false;
  }

  #want(seconds) {
    this.#wanted = seconds;
    this.#feed?.moved(seconds);
    this.#audio.pause();
  }

  #unload() {
    clearTimeout(this.#timer);
    this.#feed?.close();
    this.#feed = this.#source = null;
    this.#audio.removeAttribute("src");
    this.#audio.load();
  }

  #load(seconds) {
    this.#unload();
    this.#wanted = seconds > 0 ? seconds : null;
    if (this.#complete) {
      this.#source = "file";
      this.#audio.src = documentPath(this.#id, "/audio?format=wav");
    } else if (feedable) {
      this.#source = "feed";
      this.#feed = new Feed(this.#audio, documentPath(this.#id, "/audio?format=mp3"), {
        goal: seconds, over: () => this.#reach(true), failed: () => this.#broken(),
      });
    } else {
      this.#source = "element";
      this.#audio.src = documentPath(this.#id, "/audio?format=mp3");
    }
    if (this.#playing && this.#wanted === null) this.#start();
  }

  #start() {
    if (this.#wanted !== null) return;
    // Refused where a new source comes in between, or the browser wants a click first: the button shows which.
    this.#audio.play().catch((error) => {
      if (error.name === "NotAllowedError") this.pause();
    });
  }

  #moved() {
    this.#feed?.moved();
    this.#reach();
    this.#changed();
  }

  /** Go to the place that is wanted, if it is there by now; at the end of everything, as near as it gets. */
  #reach(over = false) {
    if (this.#wanted === null || !this.#source || this.#audio.readyState < 1) return;
    const last = this.reachable;
    const finished = over || this.#source === "file";
    if (!this.#within(this.#wanted) && !(finished && last > 0 && this.#wanted >= last)) return;
    this.#audio.currentTime = finished ? Math.min(this.#wanted, Math.max(0, last - 0.05)) : this.#wanted;
    this.#wanted = null;
    if (this.#playing) this.#start();
    this.#changed();
  }

  #ended() {
    this.#playing = false;
    this.#changed();
  }

  /** Firefox calls it an error to have no sound device, and plays on: what counts is whether it stands still. */
  #failed() {
    const [source, at] = [this.#audio.currentSrc, this.#audio.currentTime];
    if (!this.#source || !this.#audio.error) return;
    setTimeout(() => {
      const same = this.#source && this.#audio.error && this.#audio.currentSrc === source;
      if (same && this.#audio.currentTime === at) this.#broken();
    }, GRACE);
  }

  /** The stream broke: the service may have been started anew, or the document is over. */
  #broken() {
    const [id, position] = [this.#id, this.position];
    this.#unload();
    this.#wanted = position || null;
    this.#breaks += 1;
    if (this.broken) {
      this.pause();
      return;
    }
    this.#timer = setTimeout(async () => {
      const again = await this.#lost();
      if (id !== this.#id || this.#source) return;
      if (again === null) { // nobody answers, which says nothing of the stream: the service may come back
        this.#breaks -= 1;
        this.#broken();
        return;
      }
      if (!again) this.pause();
      else if (this.#playing) this.#load(position);
    }, RETRY);
    this.#changed();
  }
}
