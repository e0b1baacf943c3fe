// The page's words in its language: what the server has put into it of `strings/CODE.json`.

const STRINGS = JSON.parse(document.getElementById("strings").textContent);

/** Code of the page's language. */
export const LANGUAGE = document.documentElement.lang;

const RIGHT_TO_LEFT = document.documentElement.dir === "rtl";
const NUMBERS = new Intl.NumberFormat(LANGUAGE, { useGrouping: false });

/** A number in the digits of the page's language. */
export const number = (value) => NUMBERS.format(value);

/** A message of the service, which is English, after words of the page's language on its code, else on its `kind`. */
export const reported = (message, code, kind = "service.reason") =>
  say(`service.${code}` in STRINGS ? `service.${code}` : kind, { message });

/** The words of a key; what stands in braces comes from `values`, numbers in the digits of the language. */
export function say(key, values = {}) {
  return STRINGS[key].replace(/\{(\w+)\}/g, (_, name) => {
    const value = values[name];
    if (typeof value === "number") return number(value);
    return RIGHT_TO_LEFT ? `\u2068${value}\u2069` : value; // isolated: a name in Latin letters turns nothing around it
  });
}
