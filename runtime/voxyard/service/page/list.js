// The documents of this browser, and the others that the service shows.
import { call, documentPath } from "./api.js";
import { say } from "./say.js";
import * as stored from "./stored.js";
import { complain, element, moment, percent, stateWords, unfinished } from "./words.js";

const PAGE = 50;
const EVERY = 4000; // ms, while something is being spoken
const ASKED_ALONE = 20; // documents of this browser that the service's list did not hold

let pages = 1;
let timer = null;
let running = false;

/** Show the lists, and keep them fresh. */
export async function refresh() {
  clearTimeout(timer);
  if (running || document.hidden) return;
  running = true;
  let going = true;
  try {
    const { listed, more } = await fetchListed();
    const mine = await fetchMine(new Map(listed.map((one) => [one.id, one])));
    const own = new Set(mine.map((one) => one.id));
    draw(mine, listed.filter((one) => !own.has(one.id)), more);
    going = [...mine, ...listed].some(unfinished);
    complain("list-error", "");
  } catch (error) {
    complain("list-error", say("documents.stale", { reason: error.message }));
    going = error.status !== 401;
  } finally {
    running = false;
  }
  if (going) timer = setTimeout(refresh, EVERY);
}

async function fetchListed() {
  const listed = [];
  let before = "";
  for (let page = 0; page < pages; page += 1) {
    const answer = await call(`v1/documents?limit=${PAGE}${before}`);
    listed.push(...answer.documents);
    if (!answer.next) return { listed, more: false };
    before = `&before=${encodeURIComponent(answer.next)}`;
  }
  return { listed, more: true };
}

async function fetchMine(listed) {
  const kept = stored.documents();
  const missing = kept.filter((one) => !listed.has(one.id)).slice(0, ASKED_ALONE);
  await Promise.all(missing.map(async ({ id }) => {
    try {
      listed.set(id, await call(documentPath(id)));
    } catch (error) {
      if (error.status !== 404) throw error;
      stored.forget(id);
    }
  }));
  return kept.map(({ id }) => listed.get(id)).filter(Boolean);
}

function draw(mine, others, more) {
  fill(element("mine"), mine);
  fill(element("others"), others);
  element("mine-empty").hidden = mine.length > 0;
  element("others-title").hidden = others.length === 0;
  element("older").hidden = !more;
}

/** Rows are kept where they stand, so that the keyboard's place is not lost when the list is drawn anew. */
function fill(list, rows) {
  const before = new Map([...list.children].map((item) => [item.dataset.id, item]));
  const items = rows.map((row) => {
    const item = before.get(row.id) ?? fresh(row);
    item.firstChild.textContent = row.title || say("document.untitled");
    item.lastChild.textContent = facts(row);
    return item;
  });
  const wanted = new Set(items);
  for (const item of before.values()) if (!wanted.has(item)) item.remove();
  items.forEach((item, index) => list.children[index] !== item && list.insertBefore(item, list.children[index] ?? null));
  mark();
}

/** The open document is known sooner than the list: its row says the same. */
export function seen(row) {
  const item = [...document.querySelectorAll("#documents li")].find((one) => one.dataset.id === row.id);
  if (item) item.lastChild.textContent = facts(row);
}

function fresh(row) {
  const item = document.createElement("li");
  item.dataset.id = row.id;
  const link = document.createElement("a");
  link.href = `#/${row.id}`;
  link.dir = "auto";
  item.append(link, document.createElement("span"));
  return item;
}

function facts(row) {
  const how = unfinished(row) ? `${stateWords(row)}${say("comma")} ${percent(row.progress)}` : stateWords(row);
  return [how, moment(row.created)].filter(Boolean).join(" · ");
}

/** Say which one is open. */
export function mark() {
  const open = location.hash.slice(2);
  for (const link of document.querySelectorAll(".list a")) {
    if (open && link.getAttribute("href") === `#/${open}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** Wire the button for older documents, and come back to life with the page. */
export function start() {
  element("older").addEventListener("click", () => {
    pages += 1;
    refresh();
  });
  document.addEventListener("visibilitychange", refresh);
}
