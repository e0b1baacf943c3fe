// The page: what is shown is in the address (`#/` the form, `#/ID` a document), so a reload comes back to it.
import { call, showSession, signOut } from "./api.js";
import * as compose from "./compose.js";
import * as shown from "./document.js";
import * as list from "./list.js";
import { say } from "./say.js";
import { read, write } from "./stored.js";
import { complain, element } from "./words.js";

const THEME = "voxyard.theme";
const AGAIN = 3000; // ms

function route({ focus = true } = {}) {
  const id = location.hash.slice(2);
  element("compose").hidden = element("voices").hidden = Boolean(id);
  element("document").hidden = !id;
  if (id) shown.open(id, () => (location.hash = "#/"));
  else {
    shown.close();
    document.title = "voxyard";
  }
  list.mark();
  if (focus) element(id ? "document-title" : "compose-title").focus();
  list.refresh();
}

async function showNotes() {
  try {
    const { data } = await call("v1/models");
    const notes = [...new Set(data.flatMap((model) => model.notes ?? []))];
    element("notes").replaceChildren(...notes.map((note) => {
      const item = document.createElement("li");
      item.textContent = say("service.note", { note });
      return item;
    }));
    element("notes").hidden = notes.length === 0;
    complain("trouble", "");
    return true;
  } catch (error) {
    complain("trouble", error.message);
    return error.status !== 0;
  }
}

async function lookUp() {
  if (!(await showNotes())) {
    setTimeout(lookUp, AGAIN); // nobody answers: the service may come back
    return;
  }
  await compose.loadVoices();
  list.refresh();
}

function startTheme() {
  const chosen = read(THEME) ?? "auto";
  for (const radio of element("theme").querySelectorAll("input")) {
    radio.checked = radio.value === chosen;
    radio.addEventListener("change", () => {
      write(THEME, radio.value === "auto" ? null : radio.value);
      if (radio.value === "auto") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = radio.value;
    });
  }
}

element("sign-out").addEventListener("click", async () => {
  try {
    await signOut();
    location.reload();
  } catch (error) {
    complain("trouble", error.message);
  }
});

// A link to a place on this page is no address of a document.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  element("main").focus();
  element("main").scrollIntoView();
});

// The other language shows the same document.
for (const link of element("languages").querySelectorAll("a")) {
  link.addEventListener("click", () => (link.hash = location.hash));
}

startTheme();
showSession();
compose.start((document) => (location.hash = `#/${document.id}`));
list.start();
addEventListener("hashchange", () => route());
route({ focus: false });
addEventListener("signed-in", lookUp);
await lookUp();
