// Draws rectangles of a space into pixels: the pattern of each kind, and an edge at its beginning.
// If places are highlighted, all others are faint. A rectangle smaller than a pixel counts for the
// part that it covers, so even the smallest holes and guards change the tone. 60,000 rectangles
// take some ten milliseconds. Those outside the window are only compared.
const Raster = (() => {
  "use strict";

  // The least opacity of a partly covered pixel, so that a single rectangle is visible.
  const LEAST = 0.2;

  // For each partly covered pixel: sums of red, green, blue and coverage.
  let sums = new Float32Array(0);

  // `view`: `from`, `to` (time), `low`, `high` (heights of the fold). `tops` and `bottoms` are the
  // heights of each rectangle of `which`.
  function draw(image, map, which, { tops, bottoms }, view, kinds, marked) {
    const { width, height } = image;
    const pixels = new Uint32Array(image.data.buffer);
    pixels.fill(0);
    if (sums.length !== pixels.length * 4) sums = new Float32Array(pixels.length * 4);
    else sums.fill(0);
    const full = kinds.map((kind) => Theme.tile(kind));
    const faint = marked.size > 0 ? kinds.map((kind) => Theme.tile(kind, true)) : full;
    const perNs = width / (view.to - view.from);
    const perHeight = height / (view.high - view.low);
    const mask = Theme.TILE - 1;
    for (let n = 0; n < which.length; n += 1) {
      const r = which[n];
      if (map.to[r] < view.from || map.from[r] > view.to || bottoms[n] < view.low || tops[n] > view.high) continue;
      const tiles = marked.has(map.site[r]) ? full : faint;
      const tile = tiles[map.kind[r]] ?? tiles[tiles.length - 1];
      if (!tile) continue;
      const left = Math.max(0, (map.from[r] - view.from) * perNs);
      const right = Math.min(width, (map.to[r] - view.from) * perNs);
      const top = Math.max(0, (tops[n] - view.low) * perHeight);
      const bottom = Math.min(height, (bottoms[n] - view.low) * perHeight);
      // The columns that are covered in full. Those at the two sides may be covered in part.
      const [first, last] = [Math.ceil(left), Math.floor(right)];
      const hasEdge = bottom - top >= 4 && right - left >= 4;
      for (let y = Math.floor(top); y < bottom; y += 1) {
        const covered = Math.min(y + 1, bottom) - Math.max(y, top);
        const line = y * width;
        const row = (y & mask) * Theme.TILE;
        if (first > last) {
          add(tile.pixels, row, covered * (right - left), line, last, first);
          continue;
        }
        if (left < first) add(tile.pixels, row, covered * (first - left), line, first - 1, first);
        if (last < right) add(tile.pixels, row, covered * (right - last), line, last, last + 1);
        if (covered < 1) add(tile.pixels, row, covered, line, first, last);
        else if (hasEdge && y < top + 1 && tops[n] >= view.low) pixels.fill(tile.ink, line + first, line + last);
        else for (let x = first; x < last; x += 1) pixels[line + x] = tile.pixels[row + (x & mask)];
        if (hasEdge && covered === 1 && map.from[r] >= view.from) pixels[line + first] = tile.ink;
      }
    }
    blend(pixels);
  }

  function add(tile, row, covered, line, left, right) {
    for (let x = left; x < right; x += 1) {
      const pixel = tile[row + (x & (Theme.TILE - 1))];
      const at = (line + x) * 4;
      sums[at] += covered * (pixel & 255);
      sums[at + 1] += covered * ((pixel >> 8) & 255);
      sums[at + 2] += covered * ((pixel >> 16) & 255);
      sums[at + 3] += covered;
    }
  }

  // Gives partly covered pixels their mean colour, with their coverage as opacity.
  function blend(pixels) {
    for (let p = 0; p < pixels.length; p += 1) {
      const covered = sums[4 * p + 3];
      if (covered === 0) continue;
      const [red, green, blue] = [sums[4 * p] / covered, sums[4 * p + 1] / covered, sums[4 * p + 2] / covered];
      const alpha = pixels[p] === 0 ? Math.round(255 * Math.min(1, Math.max(LEAST, covered))) : 255;
      pixels[p] = ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0;
    }
  }

  return { draw };
})();
