// Pictures of pages that samara wrote: `pictures.mjs OUT WIDTH HEIGHT THEME PAGE...` writes the top of
// each page as OUT/NAME.png, or with HEIGHT `panels` each panel of it as OUT/THEME-PANEL.png.
import { createRequire } from "node:module";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const puppeteer = createRequire(join(process.env.SAMARA_PAGE_MODULES, "node_modules", "x.js"))("puppeteer-core");
const [out, width, height, theme, ...files] = process.argv.slice(2);
const browser = await puppeteer.launch({
  executablePath: process.env.SAMARA_CHROMIUM,
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
for (const file of files) {
  const page = await browser.newPage();
  const problems = [];
  page.on("console", (message) => problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(error.message));
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
  await page.setViewport({ width: Number(width), height: height === "panels" ? 900 : Number(height) });
  await page.goto(pathToFileURL(resolve(file)).href);
  await page.waitForSelector("#cause");
  await new Promise((done) => setTimeout(done, 500));
  // A fixed bar at the top of the window would cover the panels.
  if (height === "panels") await page.$eval(".bar", (bar) => (bar.style.position = "static"));
  if (height !== "panels") await page.screenshot({ path: join(out, `${basename(file, ".html")}.png`) });
  else
    for (const panel of await page.$$("main > section"))
      await panel.screenshot({ path: join(out, `${theme}-${await panel.evaluate((node) => node.id)}.png`) });
  if (problems.length > 0) throw new Error(`${file}: ${problems.join("; ")}`);
  await page.close();
}
await browser.close();
