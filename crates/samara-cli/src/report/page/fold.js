// How addresses become heights: a monotone function of a space's pages, linear between the bounds
// of its areas. Addresses that were never mapped are folded to a thin gap. There are two scales. In
// `even` each stretch between two bounds gets the logarithm of its pages, so that small areas show
// beside large ones. In `size` every page gets the same height.
const Fold = (() => {
  "use strict";

  // The most height of all gaps together, as a part of the mapped height.
  const GAPS = 0.25;

  // Index of the last bound at or below a value; -1 if there is none.
  function below(bounds, value) {
    let [low, high] = [0, bounds.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (bounds[middle] <= value) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  // `which` are the rectangles of the space: indices into the columns of `map`.
  function create(map, which, scale) {
    const all = new Float64Array(which.length * 2);
    which.forEach((r, i) => {
      all[2 * i] = map.start[r];
      all[2 * i + 1] = map.end[r];
    });
    all.sort();
    const bounds = all.filter((bound, i) => i === 0 || bound !== all[i - 1]);
    const stretches = Math.max(0, bounds.length - 1);
    // The number of rectangles that begin at a bound, less those that end there.
    const changes = new Int32Array(bounds.length);
    for (const r of which) {
      changes[below(bounds, map.start[r])] += 1;
      changes[below(bounds, map.end[r])] -= 1;
    }
    const weigh = (pages) => (scale === "size" ? pages : Math.log2(pages + 1));
    const isMapped = new Uint8Array(stretches);
    let [inside, mapped, gaps] = [0, 0, 0];
    for (let i = 0; i < stretches; i += 1) {
      inside += changes[i];
      isMapped[i] = inside > 0 ? 1 : 0;
      if (inside > 0) mapped += weigh(bounds[i + 1] - bounds[i]);
      else gaps += 1;
    }
    const gap = Math.min(mapped * 0.01, (mapped * GAPS) / Math.max(1, gaps));
    const heights = new Float64Array(bounds.length);
    for (let i = 0; i < stretches; i += 1) {
      const height = weigh(bounds[i + 1] - bounds[i]);
      heights[i + 1] = heights[i] + (isMapped[i] ? height : Math.min(height, gap));
    }
    const total = heights[stretches] ?? 0;

    // Pages to heights, and back: within a stretch in proportion.
    function height(page) {
      const i = below(bounds, page);
      if (i < 0) return 0;
      if (i >= stretches) return total;
      return heights[i] + ((page - bounds[i]) / (bounds[i + 1] - bounds[i])) * (heights[i + 1] - heights[i]);
    }
    function page(at) {
      const i = Math.min(below(heights, at), stretches - 1);
      if (i < 0) return bounds[0] ?? 0;
      const part = heights[i + 1] > heights[i] ? (at - heights[i]) / (heights[i + 1] - heights[i]) : 0;
      return bounds[i] + Math.min(1, part) * (bounds[i + 1] - bounds[i]);
    }
    // The smallest height of one page in the window. Zooming ends there.
    function pageHeight(at) {
      const i = Math.max(0, Math.min(below(heights, at), stretches - 1));
      return stretches === 0 ? 1 : (heights[i + 1] - heights[i]) / (bounds[i + 1] - bounds[i]);
    }
    return { bounds, heights, isMapped, total, height, page, pageHeight, below: (at) => below(heights, at) };
  }

  return { create };
})();
