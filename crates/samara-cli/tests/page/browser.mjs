// Headless Chromium. It keeps every problem of its pages: errors, violations of the policy,
// requests beyond the file itself, kinds of canvases.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { PAGES } from "./make.mjs";
import { render } from "./render.mjs";

// Where `ci/page.sh` installed puppeteer-core, and the browser that it found.
const puppeteer = createRequire(join(process.env.SAMARA_PAGE_MODULES ?? ".", "node_modules", "x.js"))("puppeteer-core");
const CHROMIUM = process.env.SAMARA_CHROMIUM ?? "/usr/bin/chromium";

const directory = mkdtempSync(join(tmpdir(), "samara-page-"));
const made = new Map();
let browser;

export const WORDS = "kept apart <b>&amp;</b>";

export async function start() {
  browser = await puppeteer.launch({
    executablePath: CHROMIUM,
    args: ["--no-sandbox", "--disable-dev-shm-usage"],
    protocolTimeout: 300_000,
  });
}
export async function stop() {
  await browser?.close();
  rmSync(directory, { recursive: true, force: true });
}

// The data and the file of a fixture.
export function fixture(name) {
  if (!made.has(name)) {
    const data = PAGES[name]();
    const file = join(directory, `${name}.html`);
    writeFileSync(file, render(data, { title: `samara: ${name}`, words: WORDS }));
    made.set(name, { data, url: pathToFileURL(file).href });
  }
  return made.get(name);
}

// A page with a fixture, drawn. `page.problems` should be empty.
export async function open(name, { fragment = "", theme = "light", width = 1280, hasScripts = true } = {}) {
  const { data, url } = fixture(name);
  const page = await browser.newPage();
  page.problems = [];
  page.on("console", (message) => page.problems.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => page.problems.push(`error: ${error.stack ?? error.message}`));
  page.on("request", (request) => {
    if (request.url().split("#")[0] !== url) page.problems.push(`request: ${request.url()}`);
  });
  await page.evaluateOnNewDocument(() => {
    window.seen = { violations: [], contexts: [] };
    document.addEventListener("securitypolicyviolation", (event) =>
      window.seen.violations.push(`${event.violatedDirective} ${event.sample}`),
    );
    const { getContext } = HTMLCanvasElement.prototype;
    HTMLCanvasElement.prototype.getContext = function (kind, ...more) {
      window.seen.contexts.push(kind);
      return getContext.call(this, kind, ...more);
    };
  });
  await page.setJavaScriptEnabled(hasScripts);
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
  await page.setViewport({ width, height: 900 });
  await page.goto(url + fragment);
  if (hasScripts) await settle(page);
  return { page, data, trace: data.traces.at(-1) };
}

// Waits until the page is drawn.
export const settle = (page) =>
  page.evaluate(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)))),
  );

export async function problems(page) {
  const seen = await page.evaluate(() => window.seen);
  return [
    ...page.problems,
    ...seen.violations.map((one) => `violation: ${one}`),
    ...seen.contexts.filter((kind) => kind !== "2d").map((kind) => `canvas: ${kind}`),
  ];
}

// The cells of a table's rows, as texts.
export const rows = (page, selector) =>
  page.$$eval(`${selector} tbody tr`, (all) => all.map((row) => [...row.children].map((cell) => cell.textContent)));
export const text = (page, selector) => page.$eval(selector, (node) => node.textContent);

// Opens every `details` in a selector, so that its content is made.
export async function expand(page, selector) {
  await page.$$eval(`${selector} details`, (all) => all.forEach((one) => (one.open = true)));
  await settle(page);
}
