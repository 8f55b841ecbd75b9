// The numbers on the page are those of the data.
import assert from "node:assert/strict";
import { test } from "node:test";
import { expand, open, problems, rows, settle, text } from "./browser.mjs";

const count = (n) => n.toLocaleString("en-US");

// A row of the table of places begins with the text of its call.
function placeOf(trace, cell) {
  const texts = trace.sites.text.map((s) => trace.strings[s]);
  return texts.findIndex((one) => cell.startsWith(one.slice(0, 79)));
}

test("places have the areas, mappings, splits and calls of the data", async () => {
  const { page, trace } = await open("guards");
  const table = await rows(page, "#who .table:last-child");
  assert.equal(table.length, trace.sites.node.length);
  for (const [place, retained, , , areas, , made, splits, , calls] of table) {
    const s = placeOf(trace, place);
    assert.deepEqual(
      [areas, made, splits, calls],
      ["areas", "made", "splits", "calls"].map((key) => count(trace.sites[key][s])),
      place,
    );
    const alive = trace.lives.site.reduce(
      (sum, site, i) => sum + (site === s && trace.lives.gone[i] === -1 ? trace.lives.areas[i] : 0),
      0,
    );
    assert.equal(retained, count(alive));
  }
  await page.close();
});

test("the first panel names the cause, the limit that was met, and the function", async () => {
  const { page, trace } = await open("guards");
  const cause = await text(page, "#cause");
  assert.ok(cause.includes(trace.why.verdicts[0].text));
  assert.match(cause, /by mprotect in \? guard at \/src\/arena\.c:44/);
  assert.match(
    cause,
    /mprotect failed with ENOMEM 12 times: the process had 4,006 areas, and vm\.max_map_count is 4,006/,
  );
  assert.match(cause, /mmap failed with EINVAL, .* in grow at arena\.c:9: the length is 0/);
  assert.match(cause, /4,005 \(100 % of the limit of 4,006\)/);
  // It is visible without scrolling.
  const bottom = await page.$eval("#cause .cause", (node) => node.getBoundingClientRect().bottom);
  assert.ok(bottom < 900, `${bottom}`);
  await page.close();
});

test("boundaries are grouped by reason", async () => {
  const { page, trace } = await open("guards");
  const groups = await page.$$eval("#apart summary", (all) => all.map((one) => one.textContent));
  const sums = new Map();
  for (const { reasons, count: n, would_go: gone } of trace.boundaries) {
    const sum = sums.get(reasons.join(", ")) ?? [0, 0];
    sums.set(reasons.join(", "), [sum[0] + n, sum[1] + gone]);
  }
  const expected = [...sums].sort((a, b) => b[1][0] - a[1][0]);
  assert.equal(groups.length, expected.length);
  expected.forEach(([reason, [n, gone]], i) => {
    assert.ok(groups[i].startsWith(`${reason} ${count(n)} bound`), groups[i]);
    assert.ok(groups[i].endsWith(gone > 0 ? ` ${count(gone)} fewer areas` : n === 1 ? "boundary" : "boundaries"), groups[i]);
  });
  // The first group is open: who made both sides, and who changed one of them.
  const sides = (await rows(page, "#apart details")).slice(0, 2).map((row) => row.slice(0, 2));
  assert.deepEqual(sides.map((row) => row.map((cell) => /changed by .*mprotect/.test(cell))), [[false, true], [true, false]]);
  await page.close();
});

test("durations, processes and the flame graph's table are those of the data", async () => {
  const { page, trace } = await open("leaked");
  await expand(page, "main");
  const bars = await rows(page, "#slow details");
  for (const [name, ...cells] of bars)
    assert.equal(
      cells.reduce((sum, n) => sum + Number(n.replaceAll(",", "")), 0),
      trace.durations[name].reduce((a, b) => a + b, 0),
      name,
    );
  assert.equal(bars.length, Object.keys(trace.durations).length);
  const processes = await rows(page, "#processes");
  assert.deepEqual(
    processes.map((row) => row.slice(4)),
    trace.processes.map((one) => [count(one.areas_peak), count(one.calls)]),
  );
  assert.match(processes[1][0], /child of 300 /);
  // A function's total is the sum of its places.
  const totals = trace.tree.parent.map(() => 0);
  trace.sites.node.forEach((node, s) => {
    for (let at = node; at >= 0; at = trace.tree.parent[at]) totals[at] += trace.sites.areas[s];
  });
  const expected = trace.tree.name
    .map((name, node) => [trace.strings[name], count(totals[node])])
    .filter(([, n]) => n !== "0");
  const functions = (await rows(page, "#who details")).map(([name, , n]) => [name, n]);
  assert.deepEqual(functions.sort(), expected.sort());
  const areas = await rows(page, "#time details");
  areas.slice(0, 50).forEach((row, bin) =>
    assert.deepEqual(
      row.slice(1, 9),
      trace.time.series[0].areas.map((kind) => count(kind[bin] ?? 0)),
    ),
  );
  await page.close();
});

test("without stacks the page says how to get them", async () => {
  const { page } = await open("noStacks");
  assert.match(await text(page, "#who .hint"), /samara trace --stacks/);
  assert.equal(await page.$("#who canvas"), null);
  await page.close();
});

test("damage and what was lost are told at the top, and rectangles that stand for several", async () => {
  const { page, trace } = await open("damaged");
  assert.deepEqual(await page.$$eval(".alert", (all) => all.slice(0, 2).map((one) => one.textContent)), [
    trace.damage,
    trace.lost,
  ]);
  assert.match(await text(page, "#map .note"), /closer than 1\.00 us and 64 KiB is drawn as one/);
  await page.close();
});

test("two traces: what differs, and a switch for the other panels", async () => {
  const { page, data } = await open("two");
  const { before, after, places } = data.diff;
  const tables = await page.$$eval("#compare table", (all) =>
    all.map((one) =>
      [...one.querySelectorAll("tbody tr")].map((row) => [...row.children].map((cell) => cell.textContent)),
    ),
  );
  assert.deepEqual(tables[0][0], [
    "areas",
    count(before.areas),
    count(after.areas),
    `+${count(after.areas - before.areas)}`,
  ]);
  assert.deepEqual(
    tables[1].map((row) => row[3]),
    ["+2,900", "−1"],
  );
  assert.deepEqual(tables[2][0].slice(1, 4), [
    count(places[0].before.areas),
    count(places[0].after.areas),
    `+${count(places[0].after.areas - places[0].before.areas)}`,
  ]);
  const shown = () => text(page, "#cause h3");
  assert.equal(await shown(), data.traces[1].why.verdicts[0].text);
  await page.select("header select", "0");
  await settle(page);
  assert.equal(await shown(), data.traces[0].why.verdicts[0].text);
  assert.deepEqual(await problems(page), []);
  await page.close();
});
