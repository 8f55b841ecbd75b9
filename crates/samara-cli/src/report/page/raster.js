// Draws rectangles of a space into pixels: the pattern of each kind, and an edge at its beginning.
// Where places are highlighted, all others are faint. A rectangle of less than a pixel gets one.
// 60,000 rectangles take a few milliseconds, since those outside the window are only compared.
const Raster = (() => {
  "use strict";

  // `view`: `from`, `to` (time), `low`, `high` (heights of the fold). `tops` and `bottoms` are the
  // heights of each rectangle of `which`.
  function draw(image, map, which, { tops, bottoms }, view, kinds, marked) {
    const { width, height } = image;
    const pixels = new Uint32Array(image.data.buffer);
    pixels.fill(0);
    const full = kinds.map((kind) => Theme.tile(kind));
    const faint = marked.size > 0 ? kinds.map((kind) => Theme.tile(kind, true)) : full;
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
      const tiles = marked.has(map.site[r]) ? full : faint;
      const tile = tiles[map.kind[r]] ?? tiles[tiles.length - 1];
      if (!tile) continue;
      const hasEdges = bottom - top >= 4;
      const begins = right - left >= 4 && map.from[r] > view.from;
      for (let y = top; y < bottom; y += 1) {
        const line = y * width;
        if (hasEdges && y === firstRow) {
          pixels.fill(tile.ink, line + left, line + right);
          continue;
        }
        const row = (y & mask) * Theme.TILE;
        for (let x = left; x < right; x += 1) pixels[line + x] = tile.pixels[row + (x & mask)];
        if (hasEdges && begins) pixels[line + left] = tile.ink;
      }
    }
  }

  return { draw };
})();
