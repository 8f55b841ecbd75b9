// Panel "Calls that stall": the slowest calls of the span, and how long calls took, by powers of
// two. The lock that a call waits for is the model's answer, not a measurement, and the panel says
// so.
const Slow = (() => {
  "use strict";
  const { el } = Dom;
  const HEIGHT = 40;

  function create(m, app) {
    const slowest = m.trace.slowest ?? [];
    const durations = Object.entries(m.trace.durations ?? {})
      .map(([name, counts]) => ({ name, counts, all: counts.reduce((a, b) => a + b, 0) }))
      .filter((one) => one.all > 0)
      .sort((a, b) => b.all - a.all);
    const list = el("div", {});
    const said = el("p", { class: "note", role: "status" });

    // The bars of all calls share the scale of durations. Each call has its own scale of counts.
    const used = durations.flatMap(({ counts }) => counts.map((n, i) => (n > 0 ? i : -1)).filter((i) => i >= 0));
    const [low, high] =
      used.length > 0 ? [used.reduce((a, b) => Math.min(a, b)), used.reduce((a, b) => Math.max(a, b))] : [0, 0];
    const bucket = (i) => (i === 0 ? "less than 1 ns" : `${Dom.time(2 ** (i - 1))} to ${Dom.time(2 ** i)}`);
    const canvases = durations.map(({ name, counts, all }) => {
      const canvas = Dom.canvas(
        HEIGHT,
        { role: "img", "aria-label": `Durations of ${name}: a table below has them` },
        () => draw(),
      );
      const context = canvas.node.getContext("2d");
      function draw() {
        const { ratio, width } = canvas.size;
        const most = counts.reduce((a, b) => Math.max(a, b), 1);
        const step = width / (high - low + 1);
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
        context.clearRect(0, 0, width, HEIGHT);
        context.fillStyle = Theme.colour("line");
        context.fillRect(0, HEIGHT - 1, width, 1);
        context.fillStyle = Theme.colour("accent");
        for (let i = low; i <= high; i += 1) {
          if (!(counts[i] > 0)) continue;
          const height = Math.max(2, (counts[i] / most) * (HEIGHT - 4));
          context.fillRect((i - low) * step + 1, HEIGHT - 1 - height, Math.max(1, step - 2), height);
        }
      }
      canvas.node.addEventListener("pointermove", (event) => {
        const i = low + Math.floor((event.offsetX / canvas.size.width) * (high - low + 1));
        canvas.node.title = `${name}: ${Dom.count(counts[i] ?? 0)} took ${bucket(i)}`;
      });
      return {
        draw,
        row: el(
          "div",
          { class: "bars" },
          el("span", { class: "bars-name", text: `${name}, ${Dom.plural(all, "call")}` }),
          canvas.box,
        ),
      };
    });
    const ticks = el(
      "div",
      { class: "bars" },
      el("span", { class: "bars-name", text: "" }),
      el(
        "div",
        { class: "ticks" },
        el("span", { text: Dom.time(low === 0 ? 0 : 2 ** (low - 1)) }),
        el("span", { text: Dom.time(2 ** ((low + high) >> 1)) }),
        el("span", { text: Dom.time(2 ** high) }),
      ),
    );
    const table = Dom.behind("Durations as a table", () =>
      Dom.table(
        "Calls by how long they took",
        [
          { name: "call", of: (one) => one.name },
          ...Array.from({ length: high - low + 1 }, (_, i) => ({
            name: i === 0 && low === 0 ? "< 1 ns" : `< ${Dom.time(2 ** (low + i))}`,
            number: true,
            of: (one) => Dom.count(one.counts[low + i] ?? 0),
          })),
        ],
        durations,
      ),
    );

    function fill() {
      const { from, to } = app.span;
      const isWhole = Data.isWhole(m, app.span);
      const rows = slowest
        .filter((call) => isWhole || (call.begin_ns + call.ns >= from && call.begin_ns < to))
        .sort((a, b) => b.ns - a.ns);
      said.textContent = `${Dom.plural(rows.length, "call")} ${isWhole ? "in all of the time" : `in the span ${Dom.time(from)} to ${Dom.time(to)}`}, of the ${Dom.plural(slowest.length, "slowest call")} of the trace. Times include the stops of recording.`;
      list.replaceChildren(
        Dom.table(
          "Slowest calls",
          [
            { name: "call", wide: true, of: (call) => el("code", { text: call.call }) },
            { name: "took", number: true, of: (call) => Dom.time(call.ns) },
            { name: "began", number: true, of: (call) => Dom.time(call.begin_ns) },
            {
              name: "process",
              number: true,
              of: (call) => (call.tid !== call.pid ? `${call.pid}, thread ${call.tid}` : String(call.pid)),
            },
            { name: "event", number: true, of: (call) => Dom.count(call.event) },
            { name: "overlapped", of: (call) => (call.overlapped ? "~ with another call" : "") },
            { name: "lock, by a model of Linux", of: (call) => call.lock ?? "" },
            {
              name: "place",
              wide: true,
              of: (call) => (call.site >= 0 ? app.siteLink(call.site, Data.inFunction) : ""),
            },
          ],
          rows,
          { cap: 15 },
        ),
      );
    }

    const content =
      slowest.length === 0 && durations.length === 0
        ? [el("p", { class: "empty", text: "No call was recorded." })]
        : [
            el("h3", { text: "Slowest calls" }),
            said,
            list,
            durations.length > 0 ? el("h3", { text: "How long calls took" }) : null,
            ...canvases.map((one) => one.row),
            durations.length > 0 ? ticks : null,
            durations.length > 0 ? table.box : null,
          ];
    return {
      content,
      update(_, changed) {
        if (content.length === 1) return;
        if (changed.has("span")) fill();
        if (changed.has("theme")) canvases.forEach((one) => one.draw());
      },
    };
  }

  return { create };
})();
