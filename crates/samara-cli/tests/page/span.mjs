// A span of time: the panels below show the areas made in it, those of them still there, and those
// gone. The test counts them again from the data.
import assert from "node:assert/strict";
import { test } from "node:test";
import { expand, open, problems, rows, settle, text } from "./browser.mjs";

const count = (n) => n.toLocaleString("en-US");

// Areas of each place in the cells `first` to `last`.
function lived({ lives, sites }, first, last) {
  const all = sites.node.map(() => [0, 0, 0]);
  lives.site.forEach((site, i) => {
    const isBorn = first <= lives.born[i] && lives.born[i] <= last;
    const isGone = lives.gone[i] !== -1 && first <= lives.gone[i] && lives.gone[i] <= last;
    const isThere = lives.gone[i] === -1 || lives.gone[i] > last;
    if (isBorn && isThere) all[site][0] += lives.areas[i];
    if (isBorn) all[site][1] += lives.areas[i];
    if (isGone) all[site][2] += lives.areas[i];
  });
  return all;
}

async function check(page, trace, first, last) {
  const expected = lived(trace, first, last);
  const table = await rows(page, "#who .table:last-child");
  const texts = trace.sites.text.map((s) => trace.strings[s]);
  let seen = 0;
  for (const [place, ...cells] of table) {
    const s = texts.findIndex((one) => place.startsWith(one.slice(0, 79)));
    assert.deepEqual(cells.slice(0, 3), expected[s].map(count), place);
    seen += 1;
  }
  assert.equal(seen, expected.length);
  const sums = [0, 1, 2].map((i) => expected.reduce((sum, one) => sum + one[i], 0));
  const line = await text(page, "#who .note");
  sums.forEach((n, i) => assert.ok(line.includes(`${count(n)} ${["retained", "born", "gone"][i]}`), line));
}

async function type(page, from, to) {
  const fields = await page.$$(".span input");
  for (const [field, value] of [
    [fields[0], from],
    [fields[1], to],
  ]) {
    await field.click({ count: 3 });
    await page.keyboard.type(String(value));
    await page.keyboard.press("Tab");
    await settle(page);
  }
}

test("two numbers select a span, and everything below follows", async () => {
  const { page, trace } = await open("leaked");
  const cell = trace.lives.bin_ns;
  await check(page, trace, 0, 63);
  await type(page, 300, 600);
  const [first, last] = [Math.floor(300e6 / cell), Math.ceil(600e6 / cell) - 1];
  await check(page, trace, first, last);
  assert.equal(await page.$eval("#who select", (node) => node.value), "retained");
  // The slowest calls of the span, and the map's window.
  const [from, to] = [first * cell, (last + 1) * cell];
  const slow = trace.slowest.filter((call) => call.begin_ns < to && call.begin_ns + call.ns >= from);
  assert.match(await text(page, "#slow [role=status]"), new RegExp(`^${slow.length} calls in the span`));
  await expand(page, "#map");
  const inWindow = trace.map.space.filter(
    (space, i) => space === 0 && trace.map.from[i] <= to && trace.map.to[i] >= from,
  ).length;
  const listed = (await rows(page, "#map details")).length;
  const more = await text(page, "#map details .more span").catch(() => "0");
  assert.equal(listed + Number(more.replace(/[^0-9]/g, "")), inWindow);
  assert.ok(inWindow < trace.map.space.filter((space) => space === 0).length);
  // The weights of the span are a choice.
  await page.select("#who select", "gone");
  await settle(page);
  const gone = (await rows(page, "#who .table:last-child")).map((row) => Number(row[3]));
  assert.deepEqual(
    gone,
    [...gone].sort((a, b) => b - a),
  );
  assert.deepEqual(await problems(page), []);
  await page.close();
});

test("dragging over the picture selects a span", async () => {
  const { page, trace } = await open("leaked");
  const box = await (await page.$("#time .u-over")).boundingBox();
  await page.mouse.move(box.x + box.width * 0.25, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.4, box.y + 50, { steps: 5 });
  await page.mouse.move(box.x + box.width * 0.5, box.y + 50, { steps: 5 });
  await page.mouse.up();
  await settle(page);
  const [from, to] = await page.$$eval(".span input", (all) => all.map((one) => Number(one.value) * 1e6));
  const cell = trace.lives.bin_ns;
  assert.ok(Math.abs(from - trace.ns * 0.25) < 2 * cell && Math.abs(to - trace.ns * 0.5) < 2 * cell, `${from} ${to}`);
  await check(page, trace, Math.round(from / cell), Math.round(to / cell) - 1);
  // It is drawn as selected, and a button ends it.
  assert.ok(await page.$eval("#time .u-select", (node) => node.offsetWidth > 50));
  await page.click(".span button");
  await settle(page);
  await check(page, trace, 0, 63);
  assert.equal(await page.$eval("#time .u-select", (node) => node.offsetWidth), 0);
  await page.close();
});

test("a span, a weight and a place are in the address, and a verdict's link restores its view", async () => {
  const { page, trace } = await open("leaked", {
    fragment: "#panel=who&from=300000000&to=600000000&weight=born&sites=1",
  });
  const cell = trace.lives.bin_ns;
  await check(page, trace, Math.floor(300e6 / cell), Math.ceil(600e6 / cell) - 1);
  assert.equal(await page.$eval("#who select", (node) => node.value), "born");
  assert.equal((await page.$$("#who tr.marked")).length, 1);
  assert.ok(await page.$eval("#who", (node) => Math.abs(node.getBoundingClientRect().top) < 200));
  assert.ok(await page.$eval("#time .u-select", (node) => node.offsetWidth > 50));
  const links = await page.$$eval("#cause .links a", (all) =>
    all.map((one) => [one.textContent, one.getAttribute("href")]),
  );
  const who = links.find(([name]) => name === "who")[1];
  await page.evaluate((href) => (location.hash = href), who);
  await settle(page);
  assert.equal(await page.$eval("#who select", (node) => node.value), "retained");
  await check(page, trace, 0, 63);
  assert.equal(await page.evaluate(() => document.activeElement.id), "who-title");
  await page.goBack();
  await settle(page);
  assert.equal(await page.$eval("#who select", (node) => node.value), "born");
  // Unknown choices are left out.
  await page.evaluate(
    () => (location.hash = "#panel=<b>&from=1e99&to=-3&sites=99999999,x&weight=%00&space=77&at=zz&trace=9&series=44"),
  );
  await settle(page);
  await check(page, trace, 0, 63);
  assert.deepEqual(await problems(page), []);
  await page.close();
});
