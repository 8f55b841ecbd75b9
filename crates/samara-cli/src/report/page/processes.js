// Panel "Processes": each process below its parent, with the time it ran, its peak of areas and its
// calls.
const Processes = (() => {
  "use strict";
  const { el } = Dom;
  // Deeper processes are drawn at this depth, with their real depth as a number.
  const DEEPEST = 12;

  // The processes in the order of a tree, with their depths. A process without a parent here is a
  // root. So is the first one of a circle.
  function order(processes) {
    const known = new Set(processes.map((one) => one.pid));
    const children = new Map();
    const roots = [];
    for (const one of processes) {
      if (one.parent === null || one.parent === one.pid || !known.has(one.parent)) roots.push(one);
      else children.set(one.parent, [...(children.get(one.parent) ?? []), one]);
    }
    const rows = [];
    const seen = new Set();
    const walk = (root) => {
      const open = [{ one: root, depth: 0 }];
      while (open.length > 0) {
        const { one, depth } = open.pop();
        if (seen.has(one)) continue;
        seen.add(one);
        rows.push({ ...one, depth });
        const below = children.get(one.pid) ?? [];
        children.delete(one.pid);
        for (let i = below.length - 1; i >= 0; i -= 1) open.push({ one: below[i], depth: depth + 1 });
      }
    };
    [...roots, ...processes].forEach(walk);
    return rows;
  }

  function create(m, app) {
    const rows = order(m.trace.processes ?? []);
    const spaces = new Map();
    m.map.spaces.forEach((space, i) => {
      if (!spaces.has(space.pid)) spaces.set(space.pid, i);
    });
    const box = el("div", {});
    let words = "";
    const filter = el("input", { type: "search", size: "24", spellcheck: "false" });
    filter.addEventListener("input", () => {
      words = filter.value.toLowerCase();
      fill();
    });

    const name = (one) => {
      const node = el(
        "span",
        { class: "tree" },
        one.depth > 0 ? el("span", { class: "hidden", text: `child of ${one.parent} ` }) : null,
      );
      node.style.paddingLeft = `${Math.min(one.depth, DEEPEST) * 1.1}em`;
      const space = spaces.get(one.pid);
      node.append(
        one.depth > DEEPEST ? `(${one.depth} deep) ` : "",
        space === undefined
          ? String(one.pid)
          : el("button", {
              type: "button",
              class: "link",
              text: String(one.pid),
              title: "Show its address space",
              on: { click: () => app.set({ panel: "map", space, at: null }) },
            }),
        ` ${one.program}`,
      );
      return node;
    };
    const life = (one) => {
      const [from, to] = [one.begin_ns / m.ns, (one.end_ns ?? m.ns) / m.ns];
      const bar = el("span", { class: "life-bar" });
      bar.style.left = `${Math.min(100, from * 100)}%`;
      bar.style.width = `${Math.max(0.5, (to - from) * 100)}%`;
      return el("span", { class: "life", "aria-hidden": "true" }, bar);
    };
    function fill() {
      const shown =
        words === "" ? rows : rows.filter((one) => `${one.pid} ${one.program}`.toLowerCase().includes(words));
      box.replaceChildren(
        Dom.table(
          "Processes, each under its parent",
          [
            { name: "process", of: name },
            { name: "time", of: life },
            { name: "begin", number: true, of: (one) => Dom.time(one.begin_ns) },
            { name: "end", number: true, of: (one) => (one.end_ns === null ? "not seen" : Dom.time(one.end_ns)) },
            { name: "most areas", number: true, of: (one) => Dom.count(one.areas_peak) },
            { name: "calls", number: true, of: (one) => Dom.count(one.calls) },
          ],
          shown,
          { cap: 50 },
        ),
      );
    }
    fill();
    const left = m.trace.processes_left_out ?? 0;
    const content =
      rows.length === 0
        ? [el("p", { class: "empty", text: "The trace has no process." })]
        : [
            rows.length > 10
              ? el(
                  "div",
                  { class: "controls" },
                  el("label", { class: "field" }, el("span", { text: "Processes with" }), filter),
                )
              : null,
            box,
            left > 0
              ? el("p", { class: "more", text: `… and ${Dom.count(left)} more, which are left out of this page` })
              : null,
          ];
    return { content, update() {} };
  }

  return { create, order };
})();
