// Light, dark and paper: all texts are readable, and nothing is wider than the window.
import assert from "node:assert/strict";
import { test } from "node:test";
import { open, settle } from "./browser.mjs";

const luminance = ([r, g, b]) =>
  [r, g, b]
    .map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const contrast = (a, b) =>
  (Math.max(luminance(a), luminance(b)) + 0.05) / (Math.min(luminance(a), luminance(b)) + 0.05);

const colours = (page) =>
  page.evaluate(() => {
    const channels = (value) => {
      const canvas = document.createElement("canvas").getContext("2d");
      canvas.fillStyle = value;
      canvas.fillRect(0, 0, 1, 1);
      return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const style = getComputedStyle(document.documentElement);
    return Object.fromEntries(
      [
        "fg",
        "muted",
        "accent",
        "limit",
        "bg",
        "page",
        "alert",
        "flame-0",
        "flame-1",
        "flame-call",
        "flame-above",
        "flame-marked",
      ].map((name) => [name, channels(style.getPropertyValue(`--${name}`))]),
    );
  });

for (const theme of ["light", "dark"]) {
  test(`texts stand out from their ground: ${theme}`, async () => {
    const { page } = await open("guards", { theme });
    const c = await colours(page);
    assert.equal(luminance(c.bg) > 0.5, theme === "light");
    for (const text of ["fg", "muted", "accent", "limit"])
      for (const ground of ["bg", "page"])
        assert.ok(contrast(c[text], c[ground]) >= 4.5, `${text} on ${ground}: ${contrast(c[text], c[ground])}`);
    for (const ground of Object.keys(c).filter((name) => name.startsWith("flame") || name === "alert"))
      assert.ok(contrast(c.fg, c[ground]) >= 4.5, `fg on ${ground}: ${contrast(c.fg, c[ground])}`);
    // The switch changes the theme, of pictures too.
    const pixel = () =>
      page.$eval("#who canvas", (node) =>
        [...node.getContext("2d").getImageData(node.width - 40, 10, 1, 1).data].slice(0, 3),
      );
    const before = await pixel();
    await page.select("header .controls label:last-child select", theme === "light" ? "dark" : "light");
    await settle(page);
    assert.equal(luminance((await colours(page)).bg) > 0.5, theme !== "light");
    assert.notDeepEqual(await pixel(), before);
    await page.close();
  });
}

for (const width of [400, 1280, 1920]) {
  test(`nothing is wider than a window of ${width}`, async () => {
    for (const name of ["guards", "two", "hostile"]) {
      const { page } = await open(name, { width });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${name}: ${wide}`);
      await page.close();
    }
  });
}

test("on paper there are no controls, and the ground is white in any theme", async () => {
  const { page } = await open("guards", { theme: "dark" });
  await page.emulateMediaType("print");
  await settle(page);
  const seen = await page.$$eval(
    ".bar, .tools, .skip, form, .behind",
    (all) => all.filter((node) => node.checkVisibility()).length,
  );
  assert.equal(seen, 0);
  const { bg, fg } = await colours(page);
  assert.ok(luminance(bg) > 0.9 && contrast(fg, bg) > 7);
  await page.emulateMediaType(null);
  const paper = Buffer.from(await page.pdf({ format: "A4" }));
  assert.equal(paper.subarray(0, 5).toString(), "%PDF-");
  assert.ok((paper.toString("latin1").match(/\/Type\s*\/Page\b/g) ?? []).length >= 2);
  await page.close();
});
