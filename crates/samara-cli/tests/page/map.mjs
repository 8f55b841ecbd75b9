// The address space over time: the text at the pointer, the history of an address, zooming.
import assert from "node:assert/strict";
import { test } from "node:test";
import { expand, open, problems, rows, settle, text } from "./browser.mjs";

const hex = (page) => (page * 4096).toString(16).padStart(8, "0");

test("the pointer tells an area, and a click its history", async () => {
  const { page, trace } = await open("guards");
  await page.$eval("#map canvas", (node) => node.scrollIntoView({ block: "center" }));
  const box = await (await page.$("#map canvas")).boundingBox();
  await page.mouse.move(box.x + box.width * 0.7, box.y + box.height * 0.4);
  await settle(page);
  const said = await text(page, "#map .tooltip");
  const [, range] = said.match(/^([0-9a-f]+-[0-9a-f]+), /);
  const { map } = trace;
  const r = map.start.findIndex(
    (start, i) =>
      `${hex(start)}-${hex(map.end[i])}` === range && said.includes(`event ${map.event[i].toLocaleString("en-US")}:`),
  );
  assert.ok(r >= 0, said);
  assert.ok(
    said.includes(trace.kinds[map.kind[r]]) && said.includes(trace.strings[trace.sites.text[map.site[r]]]),
    said,
  );
  await page.mouse.click(box.x + box.width * 0.7, box.y + box.height * 0.4);
  await settle(page);
  const at = parseInt(await page.$eval("#map form input", (node) => node.value), 16) / 4096;
  const expected = map.start
    .map((_, i) => i)
    .filter((i) => map.space[i] === 0 && map.start[i] <= at && at < map.end[i])
    .sort((a, b) => map.from[a] - map.from[b]);
  const history = await rows(page, "#map .history");
  // The first hundred, and how many more there are.
  assert.match(
    await text(page, "#map .history .note"),
    new RegExp(`^${expected.length.toLocaleString("en-US")} areas held`),
  );
  assert.deepEqual(
    history.map((row) => [row[2], row[6]]),
    expected
      .slice(0, 100)
      .map((i) => [`${hex(map.start[i])}-${hex(map.end[i])}`, map.event[i].toLocaleString("en-US")]),
  );
  assert.ok(history.length >= 2);
  await page.close();
});

test("an address that is typed has its history; others are told", async () => {
  const { page, trace } = await open("guards");
  const ask = async (address) => {
    await page.$eval("#map form input", (node) => (node.value = ""));
    await page.type("#map form input", `${address}\n`);
    await settle(page);
    return text(page, "#map .history .note");
  };
  assert.match(await ask(`0x${hex(trace.map.start[10])}`), /areas? held /);
  assert.match(await ask("1000"), /Nothing was ever mapped at 00001000/);
  assert.match(await ask("<b>"), /hexadecimal/);
  assert.deepEqual(await problems(page), []);
  await page.close();
});

test("zooming goes from all of it to a single page, and back", async () => {
  const { page, trace } = await open("guards");
  await expand(page, "#map");
  const inWindow = async () =>
    (await rows(page, "#map details")).length +
    Number((await text(page, "#map details .more span").catch(() => "0")).replace(/[^0-9]/g, ""));
  const refresh = async () => {
    await page.$eval("#map details", (node) => (node.open = false));
    await settle(page);
    await expand(page, "#map");
  };
  const all = trace.map.space.length;
  assert.equal(await inWindow(), all);
  await page.focus("#map canvas");
  await page.keyboard.press("ArrowDown");
  for (let i = 0; i < 40; i += 1) await page.keyboard.press("+");
  for (let i = 0; i < 40; i += 1) await page.keyboard.press("t");
  await refresh();
  assert.ok((await inWindow()) <= 4, `${await inWindow()}`);
  await page.keyboard.press("Home");
  await refresh();
  assert.equal(await inWindow(), all);
  // The wheel zooms only after the picture is chosen, so that it does not disturb scrolling.
  await page.$eval("#map canvas", (node) => node.scrollIntoView({ block: "center" }));
  const box = await (await page.$("#map canvas")).boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  for (let i = 0; i < 20; i += 1) await page.mouse.wheel({ deltaY: -100 });
  await refresh();
  assert.ok((await inWindow()) < all / 4);
  await page.evaluate(() => document.activeElement.blur());
  const before = await inWindow();
  await page.mouse.wheel({ deltaY: 100 });
  await refresh();
  assert.equal(await inWindow(), before);
  await page.close();
});

test("another process has its own areas", async () => {
  const { page, trace } = await open("leaked");
  await page.select("#map select", "1");
  await settle(page);
  await expand(page, "#map");
  assert.equal((await rows(page, "#map details")).length, trace.map.space.filter((space) => space === 1).length);
  await page.close();
});
