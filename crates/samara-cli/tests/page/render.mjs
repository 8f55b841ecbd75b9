// Puts data into the page, as `samara report` does: texts escaped, the policy made
// of the hashes of the style and the scripts. `page/` of the report module is the only source.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const PAGE = fileURLToPath(new URL("../../src/report/page/", import.meta.url));
const read = (name) => readFileSync(PAGE + name, "utf8");

// In the order of the page: each knows only those before it when it is read.
export const SCRIPTS = [
  "uPlot",
  "dom",
  "theme",
  "data",
  "chart",
  "timeline",
  "fold",
  "raster",
  "history",
  "map",
  "flame",
  "who",
  "boundaries",
  "verdicts",
  "slow",
  "processes",
  "compare",
  "main",
];

export const scripts = () => SCRIPTS.map((name) => read(`${name}.js`)).join("");

const escaped = (text) =>
  text.replace(
    /[&<>"'/]/g,
    (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;", "/": "&#x2f;" })[c],
  );
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

export const json = (data) =>
  JSON.stringify(data).replace(/[<>&\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

export function render(data, { title = "samara report", words = "" } = {}) {
  const values = {
    title: escaped(title),
    words: escaped(words),
    css: read("page.css"),
    scripts: scripts(),
    data: json(data),
  };
  values.csp = escaped(
    `default-src 'none'; style-src ${hash(values.css)}; script-src ${hash(values.scripts)}; base-uri 'none'; form-action 'none'`,
  );
  return read("page.html").replace(/\{\{ (\w+) \}\}/g, (_, name) => values[name]);
}
