// Hostile names are shown as text everywhere.
import assert from "node:assert/strict";
import { test } from "node:test";
import { expand, open, problems, settle } from "./browser.mjs";
import { HOSTILE } from "./make.mjs";

test("no name becomes an element, an attribute or a script", async () => {
  const { page } = await open("hostile");
  await expand(page, "main");
  // Everything that draws names: the highlighted places, the pointer, the flame graph.
  await page.evaluate(
    (n) => (location.hash = `#sites=${Array.from({ length: 8 }, (_, i) => n + i)}&at=${0x7f25e9820}`),
    5,
  );
  await settle(page);
  for (const selector of ["#map canvas", "#who canvas", "#time .u-over"]) {
    await page.$eval(selector, (node) => node.scrollIntoView({ block: "center" }));
    const box = await (await page.$(selector)).boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    await settle(page);
  }
  assert.deepEqual(await problems(page), []);
  const found = await page.evaluate(() => ({
    harm: window.harm,
    strange: [
      ...document.querySelectorAll("img, svg, iframe, object, embed, b, form[action], base, link, style, script"),
    ]
      .map((node) => node.tagName)
      .sort(),
    handlers: [...document.querySelectorAll("*")].flatMap((node) =>
      node.getAttributeNames().filter((name) => name.startsWith("on")),
    ),
    links: [...document.querySelectorAll("a")]
      .map((node) => node.getAttribute("href"))
      .filter((href) => !href.startsWith("#")),
  }));
  assert.deepEqual(found, { strange: ["SCRIPT", "SCRIPT", "STYLE"], handlers: [], links: [] });
  const missing = await page.evaluate(
    (texts) => texts.filter((text) => !document.getElementById("page").textContent.includes(text)),
    HOSTILE.filter((text) => text !== "\ud800"),
  );
  assert.deepEqual(missing, []);
  await page.close();
});
