// A stacked chart over time, drawn by uPlot. It has one step for each bin, a pattern for each kind,
// lines over them, and a limit. Knows uPlot; nothing of spans, places or panels.
const Chart = (() => {
  "use strict";

  // Ends of steps. Bin `i` begins at `i * bin`. The last value is drawn up to the end.
  function ends(bins, bin, ns) {
    const xs = Array.from({ length: bins }, (_, i) => i * bin);
    xs.push(Math.max(ns, bins * bin));
    return xs;
  }

  const held = (values, bins) => {
    const all = Array.from({ length: bins }, (_, i) => values?.[i] ?? 0);
    all.push(all[bins - 1] ?? 0);
    return all;
  };

  // Sums of the kinds up to each one, the highest first. They are drawn one over the other.
  function stacked(series, bins) {
    const sums = [];
    series.forEach((values, kind) => {
      const below = sums[kind - 1];
      sums.push(held(values, bins).map((value, i) => value + (below ? below[i] : 0)));
    });
    return sums.reverse();
  }

  const axis = (more) => ({
    stroke: () => Theme.colour("muted"),
    grid: { stroke: () => Theme.colour("grid"), width: 1 },
    ticks: { stroke: () => Theme.colour("grid"), width: 1, size: 4 },
    font: "12px system-ui, sans-serif",
    ...more,
  });

  // Steps of an axis of times. uPlot takes powers of ten, which suit nanoseconds.
  const times = (_, values) => values.map((ns) => (ns === null ? null : Dom.time(ns)));

  // A dashed line at `limit`, with its name.
  function drawLimit(u, limit) {
    const y = u.valToPos(limit.value, "y", true);
    if (y < u.bbox.top) return;
    const { ctx } = u;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = Theme.colour("limit");
    ctx.lineWidth = 2 * ratio;
    ctx.setLineDash([8 * ratio, 4 * ratio]);
    ctx.beginPath();
    ctx.moveTo(u.bbox.left, y);
    ctx.lineTo(u.bbox.left + u.bbox.width, y);
    ctx.stroke();
    ctx.font = `600 ${12 * ratio}px system-ui, sans-serif`;
    ctx.textBaseline = "bottom";
    ctx.textAlign = "left";
    ctx.fillText(limit.name, u.bbox.left + 6 * ratio, y - 3 * ratio);
    ctx.restore();
  }

  // `options`: `height`, `bins`, `bin`, `ns`, `end` (of the time scale), `kinds`, their `series`,
  // `line` (values at each end, or null), `limit`, `top` (the scale reaches it), `value` (writes a
  // number), `steps` (of its axis), `sync`, `onSelect(from, to)`, `onHover(bin or null)`.
  function create(box, options) {
    const { bins, bin, ns, kinds = [] } = options;
    const xs = ends(bins, bin, ns);
    const sums = stacked(options.series ?? [], bins);
    const order = kinds.map((_, i) => kinds.length - 1 - i);
    let line = options.line ?? null;
    const most = (values) => (values ?? []).reduce((a, b) => Math.max(a, b), 0);
    const top = Math.max(1, options.top ?? 0, most(sums[0]));
    const data = () => [xs, ...sums, line ?? xs.map(() => null)];
    const steps = uPlot.paths.stepped({ align: 1 });
    let isOurs = false;
    let isDrawn = false;
    let last = null;
    const u = new uPlot(
      {
        width: Math.max(200, box.clientWidth),
        height: options.height,
        legend: { show: false },
        padding: [options.limit ? 18 : 8, 28, 0, 0],
        cursor: {
          y: false,
          points: { show: false },
          drag: { x: true, y: false, setScale: false },
          sync: options.sync ? { key: options.sync } : undefined,
        },
        scales: {
          x: { time: false, range: [0, Math.max(options.end ?? 0, xs[bins])] },
          y: { range: () => [0, Math.max(top * 1.05, most(line) * 1.05, (options.limit?.value ?? 0) * 1.02)] },
        },
        axes: [
          axis({
            values: times,
            space: 80,
            size: options.hasTimes === false ? 8 : 28,
            ...(options.hasTimes === false ? { values: (_, v) => v.map(() => "") } : {}),
          }),
          axis({
            values: (_, values) => values.map((value) => options.value(value)),
            size: 72,
            space: 28,
            ...(options.steps ? { incrs: options.steps } : {}),
          }),
        ],
        series: [
          {},
          ...order.map((kind) => ({
            paths: steps,
            width: 0,
            points: { show: false },
            fill: (self) => Theme.pattern(self.ctx, kinds[kind]),
          })),
          { paths: steps, width: 2, points: { show: false }, stroke: () => Theme.colour("fg") },
        ],
        hooks: {
          draw: [
            (self) => {
              if (options.limit) drawLimit(self, options.limit);
              if (!isDrawn) {
                isDrawn = true;
                select(last);
              }
            },
          ],
          setSelect: [
            (self) => {
              if (isOurs || !options.onSelect || self.select.width < 2) return;
              options.onSelect(
                self.posToVal(self.select.left, "x"),
                self.posToVal(self.select.left + self.select.width, "x"),
              );
            },
          ],
          setCursor: [
            (self) => {
              const x = self.cursor.left >= 0 ? self.posToVal(self.cursor.left, "x") : -1;
              options.onHover?.(x < 0 ? null : Math.min(bins - 1, Math.floor(x / bin)));
            },
          ],
        },
      },
      data(),
      box,
    );
    // Shows a span as selected, or none if it is null.
    function select(span) {
      last = span;
      if (!isDrawn) return;
      isOurs = true;
      const left = span ? u.valToPos(span.from, "x") : 0;
      const width = span ? Math.max(2, u.valToPos(span.to, "x") - left) : 0;
      u.setSelect({ left, width, top: 0, height: span ? u.over.clientHeight : 0 }, false);
      isOurs = false;
    }
    new ResizeObserver(() => {
      const width = Math.max(200, Math.floor(box.clientWidth));
      if (width === u.width) return;
      u.setSize({ width, height: options.height });
      select(last);
    }).observe(box);
    return {
      select,
      destroy: () => u.destroy(),
      draw(values) {
        line = values;
        u.setData(data());
      },
    };
  }

  // Steps of an axis of counts, and of one of KiB.
  const COUNTS = Array.from({ length: 15 }, (_, i) => [1, 2, 5].map((n) => n * 10 ** i)).flat();
  const BINARY = Array.from({ length: 50 }, (_, i) => 2 ** i);

  return { create, held, COUNTS, BINARY };
})();
