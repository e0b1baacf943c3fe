// Feeds a growing MP3 stream to an audio element through a MediaSource, so that one can jump within what has come.

const AHEAD = 900; // seconds that are fetched before the listener gets there
const BEHIND = 120; // seconds that stay for going back, when the browser's buffer is full

export const feedable = typeof MediaSource !== "undefined" && MediaSource.isTypeSupported("audio/mpeg");

const event = (target, name) => new Promise((resolve) => target.addEventListener(name, resolve, { once: true }));

export class Feed {
  #audio;
  #source = new MediaSource();
  #abort = new AbortController();
  #goal;
  #wake = () => {};

  /** Start; `goal` is where the listener wants to be, `over()` tells the end, `failed()` a stream that broke. */
  constructor(audio, address, { goal, over, failed }) {
    this.#audio = audio;
    this.#goal = goal;
    this.#run(address).then(
      () => this.#abort.signal.aborted || over(),
      () => this.#abort.signal.aborted || failed(),
    );
  }

  close() {
    this.#abort.abort();
    this.#wake();
  }

  /** The listener moved, or wants to be somewhere else: there may be room again, or a need for more. */
  moved(goal) {
    this.#goal = goal ?? this.#goal;
    this.#wake();
  }

  async #run(address) {
    const url = URL.createObjectURL(this.#source);
    this.#audio.src = url;
    await event(this.#source, "sourceopen");
    URL.revokeObjectURL(url);
    const buffer = this.#source.addSourceBuffer("audio/mpeg");
    const answer = await fetch(address, { signal: this.#abort.signal });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const reader = answer.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      await this.#append(buffer, value);
      while (this.#end(buffer) > Math.max(this.#audio.currentTime, this.#goal) + AHEAD) await this.#listener();
    }
    this.#source.endOfStream();
  }

  #end(buffer) {
    return buffer.buffered.length ? buffer.buffered.end(buffer.buffered.length - 1) : 0;
  }

  async #listener() {
    await new Promise((resolve) => (this.#wake = resolve));
    this.#abort.signal.throwIfAborted();
  }

  async #append(buffer, bytes) {
    for (;;) {
      this.#abort.signal.throwIfAborted(); // a closed feed's buffer belongs to no element any more
      try {
        buffer.appendBuffer(bytes);
        await event(buffer, "updateend");
        return;
      } catch (error) {
        if (error.name !== "QuotaExceededError") throw error;
        await this.#makeRoom(buffer);
      }
    }
  }

  async #makeRoom(buffer) {
    const end = this.#end(buffer);
    const heard = this.#goal > end ? end - 1 : this.#audio.currentTime - BEHIND;
    if (buffer.buffered.length && buffer.buffered.start(0) < heard - 1) {
      buffer.remove(0, heard);
      await event(buffer, "updateend");
    } else await this.#listener();
  }
}
