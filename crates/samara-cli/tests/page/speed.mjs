// The time that the largest page takes to draw and to answer. The times are printed. An assertion
// fails only above ten times the expected time, because machines are busy. SAMARA_PAGE_DATA names
// another file (`samara report --json`) to use instead; panels that it lacks are skipped.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fixture, open, problems, settle } from "./browser.mjs";
import { PAGES } from "./make.mjs";
import { json } from "./render.mjs";

const DRAWN = 1000;
const ANSWERED = 100;
const GIVEN = process.env.SAMARA_PAGE_DATA;
if (GIVEN) PAGES.huge = () => JSON.parse(readFileSync(GIVEN, "utf8"));

test("a page as large as one may be is drawn and answers in time", async () => {
  const { data } = fixture("huge");
  const [trace] = data.traces;
  console.log(
    `page: ${(json(data).length / 1048576).toFixed(1)} MiB of data, ${trace.map.space.length} rectangles, ${trace.lives.site.length} cells, ${trace.sites.node.length} places`,
  );
  const { page } = await open("huge");
  const drawn = await page.evaluate(
    () =>
      performance.getEntriesByName("samara-drawn")[0].startTime -
      performance.getEntriesByType("navigation")[0].responseEnd,
  );
  const reload = await page.evaluate(() => {
    const [paint] = performance.getEntriesByName("first-contentful-paint");
    return paint ? paint.startTime : null;
  });
  console.log(
    `page: drawn ${drawn.toFixed(0)} ms after the file was read, painted after ${reload?.toFixed(0)} ms in all`,
  );
  assert.ok(drawn < DRAWN * 10, `${drawn} ms`);

  // From an event to the frame that shows its effect, and until the page is idle again.
  const answers = async (name, act) => {
    await settle(page);
    const ms = await act();
    console.log(`page: ${name}: ${ms.toFixed(0)} ms`);
    assert.ok(ms < ANSWERED * 10, `${name}: ${ms} ms`);
  };
  const timed = (selector, kind, init) =>
    page.$eval(
      selector,
      (node, type, options) =>
        new Promise((done) => {
          node.scrollIntoView({ block: "center" });
          requestAnimationFrame(() =>
            setTimeout(() => {
              const begin = performance.now();
              if (type === "select") {
                node.value = options.value;
                node.dispatchEvent(new Event("change"));
              } else if (type === "input") {
                node.value = options.value;
                node.dispatchEvent(new Event("input"));
              } else {
                const Kind = { key: KeyboardEvent, wheel: WheelEvent, pointer: PointerEvent, click: MouseEvent }[type];
                const name = { key: "keydown", wheel: "wheel", pointer: "pointermove", click: "click" }[type];
                const box = node.getBoundingClientRect();
                node.focus({ preventScroll: true });
                node.dispatchEvent(
                  new Kind(name, {
                    bubbles: true,
                    cancelable: true,
                    clientX: box.left + box.width / 2,
                    clientY: box.top + Math.min(200, box.height / 2),
                    ...options,
                  }),
                );
              }
              requestAnimationFrame(() => {
                const channel = new MessageChannel();
                channel.port1.onmessage = () => done(performance.now() - begin);
                channel.port2.postMessage(0);
              });
            }, 50),
          );
        }),
      kind,
      init,
    );
  const steps = [
    ["a span by a key", "#time .figure", "key", { key: "ArrowLeft" }],
    ["the span moved", "#time .figure", "key", { key: "ArrowRight" }],
    ["all of the time", "#time .figure", "key", { key: "Escape" }],
    ["another process over time", "#time select", "select", { value: "3" }],
    ["the map zoomed by the wheel", "#map canvas", "wheel", { deltaY: -100 }],
    ["the map zoomed by a key", "#map canvas", "key", { key: "+" }],
    ["the map moved", "#map canvas", "key", { key: "ArrowDown", shiftKey: true }],
    ["the pointer over the map", "#map canvas", "pointer", {}],
    ["to the next area", "#map canvas", "key", { key: "ArrowDown" }],
    ["the history of an address", "#map canvas", "key", { key: "Enter" }],
    ["another space in the map", "#map select", "select", { value: "5" }],
    ["another weight", "#who select", "select", { value: "made" }],
    ["the pointer over the flame graph", "#who canvas", "pointer", {}],
    ["zoom of the flame graph", "#who canvas", "click", {}],
    ["a filter of places", "#who input", "input", { value: "function_12" }],
    ["the filter narrowed", "#who input", "input", { value: "function_123" }],
    ["a place highlighted", "#who td button.link, #who th button.link", "click", {}],
    ["a filter of processes", "#processes input", "input", { value: "worker_40" }],
    ["the other theme", "header label:last-child select", "select", { value: "dark" }],
  ];
  const lacks = async (selector, kind, { value }) =>
    (await page.$(kind === "select" ? `${selector} option[value="${value}"]` : selector)) === null;
  for (const [name, selector, kind, init] of steps) {
    if (GIVEN && (await lacks(selector, kind, init))) continue;
    await answers(name, () => timed(selector, kind, init));
  }
  assert.deepEqual(await problems(page), []);
  await page.close();
});
