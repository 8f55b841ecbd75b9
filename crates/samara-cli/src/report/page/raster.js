// Draws rectangles of a space into pixels: the pattern of each kind, an edge at its beginning, the
// highlighted places in the colour of text. A rectangle of less than a pixel gets one. 60,000
// rectangles take a few milliseconds, since those outside the window are only compared.
const Raster = (() => {
  "use strict";

  // `view`: `from`, `to` (time), `low`, `high` (heights of the fold). `tops` and `bottoms` are the
  // heights of each rectangle of `which`.
  function draw(image, map, which, { tops, bottoms }, view, kinds, marked) {
    const { width, height } = image;
    const pixels = new Uint32Array(image.data.buffer);
    pixels.fill(0);
    const tiles = kinds.map((kind) => Theme.tile(kind));
    const solid = solidOf(Theme.colour("fg"));
    const perNs = width / (view.to - view.from);
    const perHeight = height / (view.high - view.low);
    const mask = Theme.TILE - 1;
    for (let n = 0; n < which.length; n += 1) {
      const r = which[n];
      if (map.to[r] < view.from || map.from[r] > view.to || bottoms[n] < view.low || tops[n] > view.high) continue;
      const left = Math.max(0, Math.floor((map.from[r] - view.from) * perNs));
      const right = Math.min(width, Math.max(left + 1, Math.floor((map.to[r] - view.from) * perNs)));
      const firstRow = Math.floor((tops[n] - view.low) * perHeight);
      const top = Math.max(0, firstRow);
      const bottom = Math.min(height, Math.max(top + 1, Math.floor((bottoms[n] - view.low) * perHeight)));
      const tile = tiles[map.kind[r]] ?? tiles[tiles.length - 1];
      if (!tile) continue;
      const isMarked = marked.has(map.site[r]);
      const hasEdges = bottom - top >= 4;
      const begins = right - left >= 4 && map.from[r] > view.from;
      for (let y = top; y < bottom; y += 1) {
        const line = y * width;
        if (isMarked) {
          pixels.fill(solid, line + left, line + right);
        } else if (hasEdges && y === firstRow) {
          pixels.fill(tile.ink, line + left, line + right);
          continue;
        } else {
          const row = (y & mask) * Theme.TILE;
          for (let x = left; x < right; x += 1) pixels[line + x] = tile.pixels[row + (x & mask)];
        }
        if (hasEdges && begins) pixels[line + left] = tile.ink;
      }
    }
  }

  // The 32-bit pixel of a colour `#rrggbb`.
  function solidOf(hex) {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  }

  return { draw };
})();
