// Requests to the service: errors in words, and the API key asked for when it is wanted.
import { reported, say } from "./say.js";
import { read, write } from "./stored.js";
import { complain, element } from "./words.js";

const SIGNED_IN = "voxyard.signed-in"; // whether, never with what

/** An error answer, or none at all (status 0). */
export class Refused extends Error {
  constructor(message, { status = 0, code = null, param = null } = {}) {
    super(message);
    Object.assign(this, { status, code, param });
  }
}

export const documentPath = (id, rest = "") => `v1/documents/${encodeURIComponent(id)}${rest}`;

/**
 * The JSON answer to a request (null where it has no body); asks for the API key and tries again on a 401.
 * Throws Refused; with `signal` it can be given up.
 */
export async function call(path, { method = "GET", json = null, form = null, headers = {}, signal } = {}) {
  const request = { method, headers: { ...headers }, body: form ?? undefined, signal };
  if (method !== "GET") request.headers["X-Voxyard-Page"] = "1";
  if (json) {
    request.headers["Content-Type"] = "application/json";
    request.body = JSON.stringify(json);
  }
  for (;;) {
    const answer = await reach(path, request);
    if (answer.ok) return answer.status === 204 ? null : await answer.json();
    const refused = await refusal(answer);
    if (answer.status !== 401 || (declined && method === "GET") || !(await askForKey())) throw refused;
  }
}

/** The sound that a request is answered with; throws as `call`. */
export async function fetchSound(path, json, signal) {
  const headers = { "Content-Type": "application/json", "X-Voxyard-Page": "1" };
  const answer = await reach(path, { method: "POST", headers, body: JSON.stringify(json), signal });
  if (!answer.ok) throw await refusal(answer);
  return answer.blob();
}

async function reach(path, request) {
  try {
    return await fetch(path, request);
  } catch {
    const cut = request.body instanceof FormData
      ? say("connection.cut")
      : say("connection.none");
    throw new Refused(cut);
  }
}

async function refusal(answer) {
  let error = {};
  try {
    error = (await answer.json()).error ?? {};
  } catch {
    // A proxy's own page, most likely: the status has to do.
  }
  const kind = answer.status === 404 ? "service.missing" : [429, 503, 507].includes(answer.status) ? "service.busy" : "service.refused";
  const told = error.message && reported(error.message, error.code, kind);
  let message = told || say("connection.status", { status: answer.status });
  const wait = Number(answer.headers.get("Retry-After"));
  if (wait > 0) message += ` ${say("connection.again", { count: Math.ceil(wait) })}`;
  return new Refused(message, { status: answer.status, code: error.code, param: error.param });
}

let asking = null; // one dialog, however many requests wait for it
let declined = false; // then only what the user does asks again, not what the page looks up by itself

/** Have the user sign in; false where they would rather not. */
function askForKey() {
  asking ??= prompt().finally(() => (asking = null));
  return asking;
}

function prompt() {
  const [dialog, form, field] = [element("key-dialog"), element("key-form"), element("key")];
  complain("key-error", "", field);
  dialog.showModal();
  field.focus();
  return new Promise((resolve) => {
    const close = (signedIn) => {
      field.value = "";
      form.onsubmit = element("key-cancel").onclick = dialog.oncancel = null;
      dialog.close();
      if (signedIn && declined) dispatchEvent(new Event("signed-in")); // what was left out can be had now
      declined = !signedIn;
      resolve(signedIn);
    };
    element("key-cancel").onclick = () => close(false);
    dialog.oncancel = () => close(false);
    form.onsubmit = async (event) => {
      event.preventDefault();
      const problem = await signIn(field.value.trim());
      if (!problem) return close(true);
      complain("key-error", problem, field);
      field.select();
    };
  });
}

/** What went wrong, or "". */
async function signIn(key) {
  if (!key) return say("key.missing");
  try {
    const request = { method: "POST", headers: { "Content-Type": "application/json", "X-Voxyard-Page": "1" } };
    const answer = await reach("session", { ...request, body: JSON.stringify({ key }) });
    if (!answer.ok) return (await refusal(answer)).message;
  } catch (error) {
    return error.message;
  }
  remember(true);
  return "";
}

/** End the session of this browser. Throws Refused. */
export async function signOut() {
  const answer = await reach("session", { method: "DELETE", headers: { "X-Voxyard-Page": "1" } });
  if (!answer.ok && answer.status !== 401) throw await refusal(answer);
  remember(false);
}

function remember(signedIn) {
  write(SIGNED_IN, signedIn ? "yes" : null);
  showSession();
}

/** The button to sign out is there while there may be a session. */
export function showSession() {
  element("sign-out").hidden = read(SIGNED_IN) === null;
}
