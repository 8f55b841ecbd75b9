// All tests of the page, in one process with one browser: `ci/page.sh` runs them.
import { after, before } from "node:test";
import { start, stop } from "./browser.mjs";

before(start);
after(stop);

await import("./loads.mjs");
await import("./figures.mjs");
await import("./span.mjs");
await import("./map.mjs");
await import("./keyboard.mjs");
await import("./hostile.mjs");
await import("./look.mjs");
await import("./speed.mjs");
