// A document's changes as they happen: by events where they come through, by asking again and again where not.
import { call, documentPath } from "./api.js";
import { unfinished } from "./words.js";

const POLL = 2000; // ms
const PATIENCE = 3; // failures of the event stream in a row

/**
 * Call `progress(document)`, `chunk(row)` and `rows(document with chunks)` as the document goes on, `gone(error)` where
 * it cannot be read, `connected(bool)` as the connection comes and goes. Returns a function that ends it; `signal` ends
 * the request that is under way.
 */
export function follow(id, { progress, chunk, rows, gone, connected, signal }) {
  let source = null;
  let timer = null;
  let ended = false;
  let failures = 0;
  let refresh = null;
  let size = 0;

  async function ask() {
    try {
      const shown = await call(documentPath(id, "?chunks=true"), { signal });
      if (ended) return null;
      connected(true);
      size = shown.chunks.length;
      rows(shown);
      return shown;
    } catch (error) {
      if (ended) return null;
      if (error.status >= 400 && error.status < 500 && error.status !== 429) {
        stop();
        gone(error);
      } else connected(false);
      return null;
    }
  }

  // The JSON of a book is large: it is asked for less often.
  const unhurried = (least) => Math.max(least, size * 2);

  async function poll() {
    const shown = await ask();
    if (!ended && !(shown && !unfinished(shown) && !shown.redo?.waiting.length)) timer = setTimeout(poll, unhurried(POLL));
  }

  function askSoon() {
    refresh ??= setTimeout(() => {
      refresh = null;
      ask();
    }, unhurried(300));
  }

  function listen() {
    source = new EventSource(documentPath(id, "/events"));
    const heard = (handle) => (event) => {
      failures = 0;
      connected(true);
      handle(event.data ? JSON.parse(event.data) : {});
    };
    source.addEventListener("progress", heard(progress));
    source.addEventListener("chunk", heard((row) => {
      chunk(row);
      askSoon(); // times of parts that were done before it are known only now
    }));
    source.addEventListener("end", heard(() => {
      source.close();
      clearTimeout(refresh);
      ask();
    }));
    source.onerror = () => {
      connected(false);
      failures += 1;
      if (source.readyState !== EventSource.CLOSED && failures < PATIENCE) return;
      source.close();
      source = null;
      poll();
    };
  }

  function silence() {
    source?.close();
    source = null;
    clearTimeout(timer);
  }

  // A browser opens few connections to a host: a page that nobody sees gives its own back.
  async function attend() {
    silence();
    if (document.hidden) {
      timer = setTimeout(poll, POLL);
      return;
    }
    const shown = await ask();
    if (ended || document.hidden) return;
    if (!shown) timer = setTimeout(attend, POLL);
    else if (unfinished(shown) || shown.redo?.waiting.length) listen();
    else stop();
  }

  function stop() {
    ended = true;
    silence();
    clearTimeout(refresh);
    document.removeEventListener("visibilitychange", attend);
  }

  document.addEventListener("visibilitychange", attend);
  attend();
  return stop;
}
