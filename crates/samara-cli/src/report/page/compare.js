// Panel "Two traces": both timelines on one scale, and the text of `samara diff`. Knows the data of
// both traces. The other panels know one.
const Compare = (() => {
  "use strict";
  const { el } = Dom;

  const change = (before, after, write) =>
    after === before ? "0" : after > before ? `+${write(after - before)}` : `−${write(before - after)}`;

  function charts(models, app) {
    const all = models.map((m) => (m.trace.time?.series ?? [])[0]);
    const end = models.reduce((most, m) => Math.max(most, m.ns), 0);
    const peak = (key) =>
      models.reduce((most, m, i) => {
        const kinds = all[i]?.[key] ?? [];
        for (let bin = 0; bin < (m.trace.time?.bins ?? 0); bin += 1)
          most = Math.max(
            most,
            kinds.reduce((sum, values) => sum + (values[bin] ?? 0), 0),
          );
        return most;
      }, 0);
    const tops = { areas: peak("areas"), bytes: peak("bytes") };
    const boxes = models.map(() => ({ areas: el("div", { class: "chart" }), bytes: el("div", { class: "chart" }) }));
    let drawn = [];
    function draw() {
      drawn.splice(0).forEach((chart) => chart.destroy());
      models.forEach((m, i) => {
        const { time } = m.trace;
        if (!all[i] || !(time.bins > 0)) return;
        const common = { bins: time.bins, bin: time.bin_ns, ns: m.ns, end, kinds: m.kinds };
        drawn.push(
          Chart.create(boxes[i].areas, {
            ...common,
            height: 160,
            series: all[i].areas,
            top: tops.areas,
            steps: Chart.COUNTS,
            value: Dom.count,
            hasTimes: false,
          }),
          Chart.create(boxes[i].bytes, {
            ...common,
            height: 100,
            series: all[i].bytes,
            top: tops.bytes,
            steps: Chart.BINARY,
            value: (kib) => Dom.bytes(kib * 1024),
          }),
        );
      });
    }
    const names = ["before", "after"];
    const node = el(
      "div",
      { class: "pair" },
      ...models.map((m, i) => {
        const peaks = m.trace.summary?.areas_peak ?? 0;
        return el(
          "div",
          {
            class: "figure",
            role: "img",
            "aria-label": `${names[i]}: at most ${Dom.plural(peaks, "area")} in ${Dom.time(m.ns)}`,
          },
          el("h3", { text: `${names[i]}: ${m.trace.file}` }),
          el("p", { class: "note", text: m.trace.title }),
          boxes[i].areas,
          boxes[i].bytes,
        );
      }),
    );
    return { node, draw };
  }

  function create(models, diff, app) {
    const pair = charts(models, app);
    const [a, b] = [diff?.before ?? {}, diff?.after ?? {}];
    const figures = [
      ["areas", a.areas, b.areas, Dom.count],
      ["mapped", a.bytes, b.bytes, Dom.bytes],
      ["splits", a.splits, b.splits, Dom.count],
      ["merges", a.merges, b.merges, Dom.count],
    ].map(([name, before, after, write]) => ({ name, before: before ?? 0, after: after ?? 0, write }));
    const sides = [
      { name: "before", number: true, of: (row) => row.write(row.before) },
      { name: "after", number: true, of: (row) => row.write(row.after) },
      { name: "change", number: true, of: (row) => change(row.before, row.after, row.write) },
    ];
    const both = (key, name, write) => [
      { name: `${name} before`, number: true, of: (place) => write(place.before?.[key] ?? 0) },
      { name: "after", number: true, of: (place) => write(place.after?.[key] ?? 0) },
      { name: "change", number: true, of: (place) => change(place.before?.[key] ?? 0, place.after?.[key] ?? 0, write) },
    ];
    const named = (one) => ({ ...one, name: one.text ?? one.reason ?? "nothing", write: Dom.count });
    const reasons = (diff?.reasons ?? []).map(named);
    const places = diff?.places ?? [];
    const largest = (side) =>
      side.pid === undefined ? "" : `process ${side.pid} (${side.program}), after ${Dom.time(side.ns)}`;
    const content = [
      Theme.legend(models[0].kinds),
      pair.node,
      diff
        ? el("p", {
            class: "note",
            text: `Compared are the spaces with the most areas: before, ${largest(a)}; after, ${largest(b)}.`,
          })
        : null,
      diff ? Dom.table("The two spaces", [{ name: "of the space", of: (row) => row.name }, ...sides], figures) : null,
      reasons.length > 0 ? el("h3", { text: "What keeps areas apart" }) : null,
      reasons.length > 0
        ? Dom.table("Boundaries by reason", [{ name: "reason", of: (row) => row.name }, ...sides], reasons)
        : null,
      places.length > 0 ? el("h3", { text: "What grew, by place" }) : null,
      places.length > 0
        ? Dom.table(
            "Places that differ, those that grew most first",
            [
              {
                name: "place",
                wide: true,
                of: (place) =>
                  el(
                    "span",
                    {},
                    el("code", { text: place.first_call }),
                    (place.functions ?? []).length > 0
                      ? el("span", { class: "note", text: ` in ${place.functions.slice(0, 4).join(" < ")}` })
                      : null,
                  ),
              },
              ...both("areas", "areas", Dom.count),
              ...both("bytes", "bytes", Dom.bytes),
              ...both("made", "made", Dom.count),
              ...both("splits", "splits", Dom.count),
            ],
            places,
            { cap: 30 },
          )
        : el("p", { class: "empty", text: diff ? "No place differs." : "There is no comparison of these two traces." }),
    ];
    return {
      content,
      update(_, changed) {
        if (changed.has("theme")) pair.draw();
      },
    };
  }

  return { create };
})();
