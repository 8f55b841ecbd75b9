// The keyboard alone reaches every control and leaves every picture again. The focus is always
// visible.
import assert from "node:assert/strict";
import { test } from "node:test";
import { open, problems, settle, text } from "./browser.mjs";

const FOCUSABLE = 'a[href], button:not(:disabled), select, input, summary, [tabindex="0"]';

for (const name of ["guards", "two", "noStacks", "zero"]) {
  test(`tab reaches every control in order: ${name}`, async () => {
    const { page } = await open(name);
    const all = await page.$$eval(
      FOCUSABLE,
      (nodes) => nodes.filter((node) => node.checkVisibility()).map((node, i) => (node.dataset.order = i)).length,
    );
    const reached = [];
    for (let i = 0; i < all * 2 + 20; i += 1) {
      await page.keyboard.press("Tab");
      const here = await page.evaluate(() => {
        const node = document.activeElement;
        if (node === document.body || node === null) return null;
        const style = getComputedStyle(node);
        const box = node.getBoundingClientRect();
        return {
          order: node.dataset.order === undefined ? -1 : Number(node.dataset.order),
          name: `${node.tagName} ${node.textContent.slice(0, 30)}`,
          isSeen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0 && box.width > 0,
        };
      });
      if (here === null || (reached.length > 0 && here.order === 0)) break;
      // Boxes that scroll may take the focus too.
      if (here.order < 0) continue;
      assert.ok(here.isSeen, `the focus is not visible: ${here.name}`);
      reached.push(here.order);
    }
    assert.deepEqual(
      reached,
      Array.from({ length: all }, (_, i) => i),
    );
    await page.close();
  });
}

test("every control and picture has a name", async () => {
  const { page } = await open("two");
  const tree = await page.accessibility.snapshot({ interestingOnly: true });
  const nameless = [];
  const walk = (node) => {
    if (
      ["button", "link", "combobox", "textbox", "searchbox", "spinbutton", "application", "image", "table"].includes(
        node.role,
      ) &&
      !node.name
    )
      nameless.push(node.role);
    node.children?.forEach(walk);
  };
  walk(tree);
  assert.deepEqual(nameless, []);
  await page.close();
});

test("keys work in every panel", async () => {
  const { page } = await open("leaked");
  const span = () => page.$$eval(".span input", (all) => all.map((one) => Number(one.value)));
  // The first skip link goes to a panel.
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await settle(page);
  assert.equal(await page.evaluate(() => document.activeElement.id), "cause-title");
  // Over time: a span appears, moves, grows, and goes.
  await page.focus("#time .figure");
  await page.keyboard.press("ArrowLeft");
  await settle(page);
  const first = await span();
  assert.ok(first[0] === 0 && first[1] < 200, `${first}`);
  await page.keyboard.press("ArrowRight");
  await settle(page);
  const second = await span();
  assert.ok(second[0] > first[0] && second[1] > first[1], `${second}`);
  await page.keyboard.down("Shift");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.up("Shift");
  await settle(page);
  assert.ok((await span())[1] > second[1]);
  await page.keyboard.press("Escape");
  await settle(page);
  assert.deepEqual(await span(), [0, 1000]);
  // The address space: the cursor goes from area to area, and enter shows a history.
  await page.focus("#map canvas");
  for (const key of ["ArrowDown", "ArrowDown", "ArrowUp", "ArrowRight", "ArrowLeft"]) await page.keyboard.press(key);
  assert.match(await text(page, "#map > [role=status]"), /^[0-9a-f]+-[0-9a-f]+, |nothing is mapped/);
  await page.keyboard.press("Enter");
  await settle(page);
  assert.match(await text(page, "#map .history .note"), /held/);
  // The flame graph: down to a call, which enter chooses.
  await page.focus("#who canvas");
  for (let i = 0; i < 6; i += 1) await page.keyboard.press("ArrowDown");
  assert.match(await text(page, "#who .readout"), /^mmap, mmap\(NULL, 8192/);
  await page.keyboard.press("ArrowUp");
  assert.match(await text(page, "#who .readout"), /^load_segment, /);
  await page.keyboard.press("Enter");
  await page.keyboard.press("Escape");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await settle(page);
  assert.equal((await page.$$("#who .card")).length, 1);
  // A link of the first panel.
  await page.focus("#cause .links a");
  await page.keyboard.press("Enter");
  await settle(page);
  assert.equal(await page.evaluate(() => document.activeElement.id), "time-title");
  assert.match(await text(page, "#time .note"), /^The line is the areas of mmap/);
  // A heading of the table of places sorts it.
  await page.focus("#who thead button");
  await page.keyboard.press("Enter");
  await settle(page);
  assert.equal(await page.$eval("#who select", (node) => node.value), "retained");
  assert.deepEqual(await problems(page), []);
  await page.close();
});
