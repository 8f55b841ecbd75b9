// Panel "Over time": areas, mapped bytes and calls. The reader selects the span here, and
// everything below follows it. The areas of highlighted places are a line over all areas.
const Timeline = (() => {
  "use strict";
  const { el } = Dom;

  // The limit is drawn if the peak reaches this part of it.
  const NEAR = 0.5;

  function limitOf(m, series, isOneProcess) {
    const peak = peakOf(series.areas, m.trace.time.bins);
    if (!(m.limit > 0) || peak < m.limit * NEAR) return null;
    const who = isOneProcess ? "" : " of one process";
    return { value: m.limit, name: `${m.usual ? "usual limit" : "vm.max_map_count"}${who}: ${Dom.count(m.limit)}` };
  }

  function peakOf(kinds, bins) {
    let peak = 0;
    for (let i = 0; i < bins; i += 1)
      peak = Math.max(
        peak,
        kinds.reduce((sum, values) => sum + (values[i] ?? 0), 0),
      );
    return peak;
  }

  // The areas of the highlighted places at the ends of the chart's bins.
  function highlighted(m, places, bins, bin) {
    if (places.size === 0 || m.lives.length === 0) return null;
    const cells = Data.left(m, places);
    const values = Array.from(
      { length: bins },
      (_, i) => cells[Math.min(cells.length - 1, Math.floor((i * bin) / m.lives.bin))],
    );
    return Chart.held(values, bins);
  }

  function create(m, app) {
    const { time } = m.trace;
    const bins = time?.bins ?? 0;
    const charts = [];
    const boxes = {
      areas: el("div", { class: "chart" }),
      bytes: el("div", { class: "chart" }),
      calls: el("div", { class: "chart" }),
    };
    const readout = el("p", { class: "readout" });
    const status = Dom.announcer();
    const series = (time?.series ?? []).filter((one) => one.areas);
    const calls = Object.entries(time?.calls ?? {});
    let shown = series[0];

    const which = Dom.choice(
      "Processes",
      series.map((one, i) => {
        const program = m.map.spaces[one.space]?.program ?? "";
        return {
          value: String(i),
          text: one.pid === null ? "all together" : `process ${one.pid} ${Dom.clip(program, 60)}`,
        };
      }),
      "0",
      (value) => app.set({ series: Number(value) }),
    );

    const total =
      calls.length === 0
        ? []
        : Array.from({ length: bins }, (_, i) => calls.reduce((sum, [, values]) => sum + (values[i] ?? 0), 0));

    function said(bin) {
      const at = `${Dom.time(bin * time.bin_ns)} to ${Dom.time(Math.min(m.ns, (bin + 1) * time.bin_ns))}`;
      const kinds = m.kinds.map((kind, i) => [kind, shown.areas[i]?.[bin] ?? 0]).filter(([, n]) => n > 0);
      const areas = kinds.reduce((sum, [, n]) => sum + n, 0);
      const kib = m.kinds.reduce((sum, _, i) => sum + (shown.bytes[i]?.[bin] ?? 0), 0);
      const made = calls.map(([name, values]) => [name, values[bin] ?? 0]).filter(([, n]) => n > 0);
      const list = (pairs) => pairs.map(([name, n]) => `${name} ${Dom.count(n)}`).join(", ");
      return `${at}: ${Dom.plural(areas, "area")}${kinds.length ? ` (${list(kinds)})` : ""}, ${Dom.bytes(kib * 1024)} mapped${made.length ? `; calls: ${list(made)}` : ""}`;
    }
    const hover = (bin) => {
      readout.textContent =
        bin === null || !shown ? "Drag over the picture to select a span. The address space, the weights “in the span” and the slowest calls follow it." : said(bin);
    };

    function draw(state) {
      charts.splice(0).forEach((chart) => chart.destroy());
      shown = series[state.series] ?? series[0];
      const common = {
        bins,
        bin: time.bin_ns,
        ns: m.ns,
        sync: "time",
        onHover: hover,
        onSelect: (from, to) => app.select(from, to),
      };
      const isOneProcess = shown.pid !== null || (m.trace.processes ?? []).length <= 1;
      charts.push(
        Chart.create(boxes.areas, {
          ...common,
          height: 220,
          hasTimes: false,
          kinds: m.kinds,
          series: shown.areas,
          limit: limitOf(m, shown, isOneProcess),
          steps: Chart.COUNTS,
          value: Dom.count,
        }),
        Chart.create(boxes.bytes, {
          ...common,
          height: 120,
          hasTimes: total.length === 0,
          kinds: m.kinds,
          series: shown.bytes,
          steps: Chart.BINARY,
          value: (kib) => Dom.bytes(kib * 1024),
        }),
      );
      if (total.length > 0)
        charts.push(
          Chart.create(boxes.calls, {
            ...common,
            height: 100,
            line: Chart.held(total, bins),
            steps: Chart.COUNTS,
            value: Dom.count,
          }),
        );
    }

    // Keys move, grow and shrink the span by cells.
    function key(event) {
      const { span } = app;
      const all = m.ns;
      const step = Math.max(m.lives.bin, all / 50);
      const width = span.to - span.from;
      const isWhole = Data.isWhole(m, span);
      const moves = {
        ArrowLeft: () =>
          event.shiftKey
            ? [span.from, span.to - step]
            : isWhole
              ? [0, all / 10]
              : [Math.max(0, span.from - step), Math.max(0, span.from - step) + width],
        ArrowRight: () =>
          event.shiftKey
            ? [span.from, span.to + step]
            : isWhole
              ? [all - all / 10, all]
              : [Math.min(all, span.to + step) - width, Math.min(all, span.to + step)],
        "+": () => [span.from + width / 4, span.to - width / 4],
        "-": () => [span.from - width / 2, span.to + width / 2],
        Escape: () => [0, all],
      };
      const move = moves[event.key === "=" ? "+" : event.key];
      if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      const [from, to] = move();
      app.select(from, to);
      status.textContent = `Span ${Dom.time(app.span.from)} to ${Dom.time(app.span.to)}`;
    }

    const figure = el(
      "div",
      {
        class: "figure",
        tabindex: "0",
        role: "application",
        "aria-label":
          "Areas, mapped bytes and calls over time. Arrow keys move the span, with shift its end; plus and minus make it smaller and larger; escape selects all of the time.",
        on: { keydown: key },
      },
      el("h3", { text: "Areas" }),
      boxes.areas,
      el("h3", { text: "Mapped" }),
      boxes.bytes,
      total.length > 0 ? el("h3", { text: "Calls" }) : null,
      boxes.calls,
    );
    const table = Dom.behind("These figures as a table", () => {
      const rows = Array.from({ length: bins }, (_, i) => i);
      const columns = [
        { name: "from", number: true, of: (i) => Dom.time(i * time.bin_ns) },
        ...m.kinds.map((kind, k) => ({ name: kind, number: true, of: (i) => Dom.count(shown.areas[k]?.[i] ?? 0) })),
        {
          name: "mapped",
          number: true,
          of: (i) => Dom.bytes(m.kinds.reduce((sum, _, k) => sum + (shown.bytes[k]?.[i] ?? 0), 0) * 1024),
        },
        ...calls.map(([name, values]) => ({ name, number: true, of: (i) => Dom.count(values[i] ?? 0) })),
      ];
      return Dom.table("Most areas of each kind, mapped bytes and calls, in equal parts of the time", columns, rows);
    });

    const line = el("p", { class: "note" });
    const content =
      bins > 0 && series.length > 0
        ? [
            el("div", { class: "controls" }, series.length > 1 ? which.box : null, Theme.legend(m.kinds)),
            line,
            figure,
            readout,
            status,
            table.box,
          ]
        : [el("p", { class: "empty", text: "The trace has no events: there is nothing to draw." })];
    hover(null);

    return {
      content,
      update(state, changed) {
        if (bins === 0 || series.length === 0) return;
        if (changed.has("series") || changed.has("theme")) {
          which.select.value = String(series[state.series] ? state.series : 0);
          draw(state);
          table.update();
        }
        if (["series", "theme", "sites"].some((name) => changed.has(name))) {
          charts[0].draw(highlighted(m, app.places(), bins, time.bin_ns));
          const places = [...app.places()];
          line.textContent =
            places.length === 0
              ? ""
              : `The line is the areas of ${places.length === 1 ? Data.siteText(m, places[0]) : Dom.plural(places.length, "highlighted place")}.`;
        }
        charts.forEach((chart) => chart.select(Data.isWhole(m, app.span) ? null : app.span));
      },
    };
  }

  return { create };
})();
