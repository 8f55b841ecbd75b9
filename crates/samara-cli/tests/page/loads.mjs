// Every page opens without an error, a request or a violation of its policy, and has every panel.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { WORDS, expand, open, problems } from "./browser.mjs";
import { PAGES } from "./make.mjs";
import { PAGE, SCRIPTS } from "./render.mjs";

const PANELS = ["cause", "time", "map", "who", "apart", "slow", "processes"];

for (const name of Object.keys(PAGES)) {
  test(`opens: ${name}`, async () => {
    const { page } = await open(name);
    const panels = await page.$$eval("main section", (all) => all.map((one) => one.id));
    assert.deepEqual(
      panels.filter((id) => id !== "compare"),
      PANELS,
    );
    assert.equal(panels.includes("compare"), name === "two");
    // Behind every picture is a table.
    await expand(page, "main");
    assert.deepEqual(await problems(page), []);
    const policy = await page.$eval("meta[http-equiv=Content-Security-Policy]", (meta) => meta.content);
    assert.match(policy, /^default-src 'none'; style-src 'sha256-[^']+'; script-src 'sha256-[^']+'/);
    const canvases = await page.$$eval("main section", (all) =>
      all
        .filter((one) => one.querySelector("canvas:not(.legend canvas)"))
        .map((one) => [one.id, one.querySelectorAll("details table, :scope > .table table, .table table").length]),
    );
    for (const [id, tables] of canvases) assert.ok(tables > 0, `${id} has a picture and no table`);
    await page.close();
  });
}

test("the policy holds: what is not the page's own script does not run", async () => {
  const { page } = await open("leaked");
  const ran = await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.harm = 1";
    document.body.append(script);
    const box = document.createElement("div");
    box.setAttribute("onclick", "window.harm = 1");
    box.click();
    return window.harm;
  });
  assert.equal(ran, undefined);
  assert.equal((await page.evaluate(() => window.seen.violations)).length, 2);
  await page.close();
});

test("without JavaScript the verdicts are there as text", async () => {
  const { page } = await open("guards", { hasScripts: false });
  assert.equal(await page.$eval("noscript pre", (node) => node.textContent), WORDS);
  await page.close();
});

test("the lists of scripts are those of the directory and of the command, and none of them makes markup or code of text", () => {
  const files = readdirSync(PAGE)
    .filter((name) => name.endsWith(".js"))
    .map((name) => name.replace(/\.js$/, ""));
  assert.deepEqual([...SCRIPTS].sort(), files.sort());
  const included = readFileSync(`${PAGE}../page.rs`, "utf8").matchAll(/include_str!\("page\/(\w+)\.js"\)/g);
  assert.deepEqual(
    [...included].map(([, name]) => name),
    SCRIPTS,
  );
  for (const name of SCRIPTS.filter((one) => one !== "uPlot")) {
    const source = readFileSync(`${PAGE}${name}.js`, "utf8");
    assert.doesNotMatch(
      source,
      /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|webgl|fetch\(|XMLHttpRequest|import\(/i,
      name,
    );
    assert.ok(source.split("\n").length <= 600, name);
  }
  const page = readFileSync(`${PAGE}page.html`, "utf8");
  assert.deepEqual(
    [...page.matchAll(/\{\{ (.*?) \}\}/g)].map(([, name]) => name),
    ["csp", "title", "css", "title", "words", "data", "scripts"],
  );
  assert.match(page, /uPlot 1\.6\.32/);
  assert.ok(page.includes(readFileSync(`${PAGE}uPlot.LICENSE`, "utf8").trim()));
});
