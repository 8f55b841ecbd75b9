// Panel "Who": the places that made areas, as a flame graph and as a table. The reader chooses the
// weight. Below is everything about the highlighted place.
const Who = (() => {
  "use strict";
  const { el } = Dom;

  function create(m, app) {
    const flame = m.hasStacks ? Flame.create(m, app, (site) => app.set({ sites: [site] })) : null;
    const spanLine = el("p", { class: "note", role: "status" });
    const one = el("div", { class: "place" });
    const tableBox = el("div", {});
    let words = "";
    let sums = null;

    const choice = Dom.choice(
      "Weight",
      m.weights.map((weight) => ({ value: weight.key, text: `${weight.name}: ${weight.help}`, group: weight.group })),
      "areas",
      (value) => app.set({ weight: value }),
    );
    const filter = el("input", { type: "search", size: "24", spellcheck: "false" });
    filter.addEventListener("input", () => {
      words = filter.value.toLowerCase();
      fillTable();
    });
    const picture = Dom.behind("This flame graph as a table", () => {
      const weight = chosen();
      return Dom.table(
        `Functions by ${weight.help}, those that they call included`,
        [
          { name: "function", wide: true, of: (node) => flame.name(node) },
          { name: "source", wide: true, of: (node) => flame.place(node) },
          { name: weight.name, number: true, of: (node) => Data.written(weight, flame.total(node)) },
        ],
        flame.rows(),
      );
    });

    const chosen = () => m.weights.find((weight) => weight.key === app.weight()) ?? m.weights[0];

    function fillTable() {
      const key = chosen().key;
      const values = Data.weights(m, key, sums);
      const all = m.weights.map((weight) => Data.weights(m, weight.key, sums));
      const isChosen = words === "" ? () => true : Data.having(m, words);
      const rows = [];
      for (let site = 0; site < m.sites.length; site += 1)
        if (all.some((of) => of[site] > 0) && isChosen(site)) rows.push(site);
      rows.sort((a, b) => values[b] - values[a] || m.sites.areas[b] - m.sites.areas[a] || a - b);
      const columns = [
        { name: "place", wide: true, of: (site) => app.siteLink(site) },
        ...m.weights.map((weight, i) => ({
          name: weight.name,
          number: true,
          sort: weight.key,
          of: (site) => Data.written(weight, all[i][site]),
        })),
      ];
      const marked = app.places();
      tableBox.replaceChildren(
        Dom.table(`Places by ${chosen().help}`, columns, rows, {
          cap: 30,
          sorted: key,
          onSort: (weight) => app.set({ weight }),
          mark: (site) => marked.has(site),
        }),
      );
    }

    function tellSpan() {
      const parts = ["retained", "born", "gone"].map((key) => {
        const kinds = m.kinds.map((kind, i) => [kind, sums[key].kinds[i]]).filter(([, n]) => n > 0);
        const list =
          key === "retained" && kinds.length > 0
            ? ` (${kinds.map(([kind, n]) => `${kind} ${Dom.count(n)}`).join(", ")})`
            : "";
        return `${Dom.count(sums[key].areas)} ${key}${list}, ${Dom.bytes(sums[key].kib * 1024)}`;
      });
      const span = Data.isWhole(m, app.span)
        ? "In all of the time"
        : `From ${Dom.time(app.span.from)} to ${Dom.time(app.span.to)}`;
      spanLine.textContent = `${span}, areas of all processes: ${parts.join("; ")}.`;
    }

    function tellPlaces() {
      const places = [...app.places()].filter((site) => site < m.sites.length);
      if (places.length === 0) return void one.replaceChildren();
      one.replaceChildren(
        ...places.slice(0, 8).map((site) => {
          const frames = Data.stack(m, site);
          const numbers = m.weights.map(
            (weight) => `${weight.name} ${Data.written(weight, Data.weights(m, weight.key, sums)[site])}`,
          );
          return el(
            "section",
            { class: "card", "aria-label": "Highlighted place" },
            el("p", {}, el("code", { class: "call", text: m.text(m.sites.text[site]) })),
            frames.length > 0
              ? el(
                  "ol",
                  { class: "stack", "aria-label": "Functions, the innermost first" },
                  ...frames.map((frame) => el("li", { text: Data.frameText(frame) })),
                )
              : null,
            el("p", { class: "note", text: numbers.join(" · ") }),
          );
        }),
        el(
          "p",
          {},
          Dom.button("No place highlighted", () => app.set({ sites: [] })),
        ),
      );
    }

    const content =
      m.sites.length === 0
        ? [el("p", { class: "empty", text: "No call of the trace made or changed areas." })]
        : [
            el("div", { class: "controls" }, choice.box),
            spanLine,
            flame
              ? flame.box
              : el(
                  "p",
                  { class: "hint" },
                  "The trace has no call stacks, so places are calls with their arguments. ",
                  el("code", { text: "samara trace --stacks" }),
                  " records the functions that made each call, and this page then has a flame graph of them.",
                ),
            flame ? picture.box : null,
            one,
            el(
              "div",
              { class: "controls" },
              el("label", { class: "field" }, el("span", { text: "Places with" }), filter),
            ),
            tableBox,
          ];

    return {
      content,
      update(state, changed) {
        if (m.sites.length === 0) return;
        if (sums === null || changed.has("span")) {
          sums = Data.lived(m, app.span);
          tellSpan();
        }
        const weight = chosen();
        choice.select.value = weight.key;
        if (!["span", "weight", "sites", "theme", "trace"].some((name) => changed.has(name))) return;
        flame?.update(Data.weights(m, weight.key, sums), weight, app.places());
        picture.update();
        tellPlaces();
        fillTable();
      },
    };
  }

  return { create };
})();
