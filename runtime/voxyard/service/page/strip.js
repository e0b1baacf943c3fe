// The parts of a document: a row of cells, one for each, and the text as it reads.
import { reported, say } from "./say.js";
import { chunkWords, clock, element, spokenTime } from "./words.js";

/** What of a part is read: without the tags of voices, after who speaks it. */
const words = (row) => (row.speaker ? `${row.speaker}: ` : "") + row.text.replace(/\[(?:voice[ \t:=][^\]\n]*|\/[ \t]*voice)\]/gi, "");

export class Strip {
  #cells = element("strip");
  #reading = element("reading");
  #detail = element("detail");
  #rows = [];
  #spans = [];
  #options = [];
  #focused = 0;
  #playing = -1;
  #shown = -1;
  #choose;
  #told;

  /** `choose(row)` is called with the part that the user wants to hear, `told(row)` with the one that is described. */
  constructor(choose, told) {
    this.#choose = choose;
    this.#told = told;
    for (const place of [this.#cells, this.#reading]) {
      place.addEventListener("click", (event) => this.#chosen(event.target.dataset.index));
    }
    this.#cells.addEventListener("keydown", (event) => this.#key(event));
    this.#cells.addEventListener("focusin", (event) => this.#tell(event.target.dataset.index));
    this.#cells.addEventListener("pointerover", (event) => this.#tell(event.target.dataset.index));
  }

  get rows() { return this.#rows; }

  clear() {
    this.#rows = [];
    this.#spans = [];
    this.#options = [];
    this.#focused = 0;
    this.#playing = this.#shown = -1;
    this.#cells.replaceChildren();
    this.#reading.replaceChildren();
    this.#detail.textContent = say("parts.hint");
  }

  /** Show these rows, as the service gives them with `?chunks=true`. */
  show(rows, language) {
    if (rows.length !== this.#rows.length) this.#build(rows, language);
    this.#rows = rows;
    rows.forEach((row) => this.#draw(row));
    if (this.#shown >= 0) this.#tell(this.#shown);
  }

  /** A part ended: `{index, state, start_seconds, end_seconds}`. */
  update(change) {
    const row = this.#rows[change.index];
    if (!row) return;
    Object.assign(row, change);
    this.#draw(row);
    if (this.#shown === change.index) this.#tell(this.#shown);
  }

  /** Mark the part that sounds at this moment; null marks none. */
  follow(seconds) {
    const index = seconds === null ? -1 : this.#at(seconds);
    if (index === this.#playing) return;
    const followed = this.#playing < 0 || this.#visible(this.#spans[this.#playing]);
    for (const [which, on] of [[this.#playing, false], [index, true]]) {
      if (which < 0) continue;
      this.#options[which].toggleAttribute("data-playing", on);
      this.#options[which].setAttribute("aria-selected", String(on));
      this.#spans[which].toggleAttribute("data-playing", on);
    }
    this.#playing = index;
    if (index < 0 || !followed) return; // who has scrolled away reads elsewhere
    this.#bring(this.#reading, this.#spans[index]);
    if (!this.#cells.contains(document.activeElement)) this.#bring(this.#cells, this.#options[index]);
  }

  #build(rows, language) {
    this.clear();
    const [cells, text] = [document.createDocumentFragment(), document.createDocumentFragment()];
    for (const row of rows) {
      const option = document.createElement("div");
      option.className = "cell";
      option.setAttribute("role", "option");
      option.setAttribute("aria-selected", "false");
      option.tabIndex = row.index ? -1 : 0;
      const span = document.createElement("span");
      span.textContent = words(row).replace(/(?<!\n)\n(?!\n)/g, " ");
      option.dataset.index = span.dataset.index = row.index;
      this.#options.push(option);
      this.#spans.push(span);
      cells.append(option);
      text.append(span, ["paragraph", "chapter"].includes(row.ending) ? "\n\n" : " ");
    }
    this.#cells.append(cells);
    this.#reading.append(text);
    this.#reading.lang = language ?? "";
    this.#reading.dir = "auto";
  }

  #draw(row) {
    const [option, span] = [this.#options[row.index], this.#spans[row.index]];
    const label = `${this.#place(row)}${say("comma")} ${chunkWords(row.state)}${this.#when(row, true)}: ${words(row)}`;
    if (option.title === label) return;
    option.dataset.state = span.dataset.state = row.state;
    option.setAttribute("aria-label", label);
    option.title = label;
  }

  #when(row, aloud = false) {
    if (row.start_seconds === null || row.start_seconds === undefined) return "";
    return aloud
      ? `${say("comma")} ${say("part.at", { time: spokenTime(row.start_seconds) })}`
      : ` · ${say("part.from_to", { from: clock(row.start_seconds), to: clock(row.end_seconds) })}`;
  }

  #place(row) {
    return say("part.of", { part: row.index + 1, parts: this.#options.length });
  }

  #tell(which) {
    const row = this.#rows[which];
    if (!row) return;
    this.#shown = row.index;
    const facts = document.createElement("span");
    facts.className = "hint";
    facts.textContent = `${this.#place(row)} · ${chunkWords(row.state)}${this.#when(row)}`
      + (row.reason ? ` · ${reported(row.reason)}` : "");
    const said = document.createElement("span");
    said.className = "said";
    said.dir = "auto";
    said.textContent = words(row);
    this.#detail.replaceChildren(facts, said);
    this.#told(row);
  }

  /** The last part that has begun by then. */
  #at(seconds) {
    let [low, high, found] = [0, this.#rows.length - 1, -1];
    while (low <= high) {
      const middle = (low + high) >> 1;
      const start = this.#rows[middle].start_seconds;
      if (start === null || start === undefined || start > seconds + 0.05) high = middle - 1;
      else [found, low] = [middle, middle + 1];
    }
    return found;
  }

  #chosen(which) {
    const row = this.#rows[which];
    if (!row) return;
    this.#rove(row.index, false);
    this.#choose(row);
  }

  #key(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const onward = getComputedStyle(this.#cells).direction === "rtl" ? -1 : 1;
    const steps = {
      ArrowRight: () => this.#focused + onward, ArrowLeft: () => this.#focused - onward,
      ArrowDown: () => this.#line(1), ArrowUp: () => this.#line(-1),
      Home: () => 0, End: () => this.#options.length - 1,
    };
    if (event.key in steps) this.#rove(steps[event.key](), true);
    else if (event.key === "Enter" || event.key === " ") this.#chosen(this.#focused);
    else return;
    event.preventDefault();
  }

  /** The cell above or below. */
  #line(direction) {
    const here = this.#options[this.#focused];
    for (let index = this.#focused + direction; this.#options[index]; index += direction) {
      const there = this.#options[index];
      const onward = getComputedStyle(this.#cells).direction === "rtl" ? -direction : direction;
      const passed = (there.offsetLeft - here.offsetLeft) * onward >= 0;
      if (there.offsetTop !== here.offsetTop && (passed || !this.#options[index + direction])) return index;
    }
    return this.#focused;
  }

  #rove(index, focus) {
    if (!this.#options[index]) return;
    this.#options[this.#focused].tabIndex = -1;
    this.#focused = index;
    this.#options[index].tabIndex = 0;
    if (focus) this.#options[index].focus();
    else this.#tell(index);
  }

  #visible(part) {
    const [frame, box] = [this.#reading.getBoundingClientRect(), part.getBoundingClientRect()];
    return box.bottom > frame.top && box.top < frame.bottom;
  }

  /** Scroll the frame, never the page. */
  #bring(frame, part) {
    const [outer, inner] = [frame.getBoundingClientRect(), part.getBoundingClientRect()];
    if (inner.top >= outer.top && inner.bottom <= outer.bottom) return;
    const smooth = matchMedia("(prefers-reduced-motion: no-preference)").matches;
    frame.scrollBy({ top: inner.top - outer.top - outer.height / 3, behavior: smooth ? "smooth" : "auto" });
  }
}
