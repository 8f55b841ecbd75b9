// Colours and patterns. The palette is that of Okabe and Ito, which suits colour-blind readers.
// Each kind of area has a pattern too, so that colour is never alone. Knows the style sheet's
// variables and the two themes; nothing of a trace.
const Theme = (() => {
  "use strict";

  // The edge of a pattern in pixels of the screen.
  const TILE = 8;

  // For each kind its colour, and the places where its pattern has ink.
  const KINDS = {
    anonymous: ["#56b4e9", () => false],
    heap: ["#0072b2", (x, y) => y % 4 === 0],
    stack: ["#cc79a7", (x, y) => x % 4 === 0 && y % 4 === 0],
    file: ["#e69f00", (x, y) => (x + y) % 8 === 0],
    code: ["#d55e00", (x, y) => (x - y + 8) % 4 === 0],
    "no access": ["#9a9da1", (x, y) => (x + y) % 8 === 0 || (x - y + 8) % 8 === 0],
    shared: ["#009e73", (x) => x % 4 === 0],
    other: ["#f0e442", (x, y) => (x >> 1) % 2 === (y >> 1) % 2],
  };
  const NAMES = Object.keys(KINDS);

  const listeners = [];
  let inPrint = false;
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");

  const isDark = () => {
    const chosen = document.documentElement.dataset.theme;
    return !inPrint && (chosen === "dark" || (chosen !== "light" && prefersDark.matches));
  };
  const changed = () => listeners.forEach((listener) => listener(inPrint));

  // "auto", "light" or "dark".
  function choose(theme) {
    if (theme === (document.documentElement.dataset.theme ?? "auto")) return;
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    changed();
  }

  prefersDark.addEventListener("change", changed);
  for (const [event, value] of [
    ["beforeprint", true],
    ["afterprint", false],
  ]) {
    window.addEventListener(event, () => {
      inPrint = value;
      // The style sheet makes the page as narrow as paper, so that the pictures fit.
      document.documentElement.toggleAttribute("data-print", value);
      changed();
    });
  }

  // A colour of the style sheet. Paper is light.
  function colour(name) {
    const style = getComputedStyle(document.documentElement);
    return style.getPropertyValue(inPrint ? `--light-${name}` : `--${name}`).trim();
  }

  const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

  // The tile of a kind: 32-bit pixels as in image data, and its ink, which edges have too. A faint
  // tile is for places that are not highlighted while others are.
  function tile(kind, isFaint = false) {
    const [hex, hasInk] = KINDS[kind] ?? KINDS[NAMES[NAMES.length - 1]];
    const base = channels(hex).map((c) => (isDark() ? c * 0.85 : c));
    const ink = base.map((c) => c * 0.55);
    const ground = channels(colour("bg"));
    const mixed = (c) => (isFaint ? c.map((value, i) => value * 0.25 + ground[i] * 0.75) : c);
    const packed = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
    const pixel = (c) => packed(mixed(c));
    const pixels = new Uint32Array(TILE * TILE);
    for (let y = 0; y < TILE; y += 1) {
      for (let x = 0; x < TILE; x += 1) pixels[y * TILE + x] = pixel(hasInk(x, y) ? ink : base);
    }
    return { pixels, ink: pixel(ink) };
  }

  function tileCanvas(kind) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = TILE;
    const image = new ImageData(TILE, TILE);
    new Uint32Array(image.data.buffer).set(tile(kind).pixels);
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  }

  const pattern = (context, kind) => context.createPattern(tileCanvas(kind), "repeat");

  // A legend of kinds: pattern and name.
  function legend(kinds) {
    const list = Dom.el("ul", { class: "legend", "aria-label": "Kinds of areas" });
    const draw = () => {
      list.replaceChildren(
        ...kinds.map((kind) => {
          const swatch = Dom.el("canvas", { width: 28, height: 14, "aria-hidden": "true" });
          const context = swatch.getContext("2d");
          context.fillStyle = pattern(context, kind);
          context.fillRect(0, 0, 28, 14);
          return Dom.el("li", {}, swatch, kind);
        }),
      );
    };
    draw();
    listeners.push(draw);
    return list;
  }

  return { TILE, choose, colour, isDark, tile, pattern, legend, onChange: (listener) => listeners.push(listener) };
})();
