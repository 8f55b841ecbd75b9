// The data of a trace as typed arrays, and sums over a span of time. A *place* is a call from one
// stack (`sites` in the data). A *span* is a part of the time. It consists of whole cells of
// `lives`, so its figures are exact. Sums over a span go through all cells. 200,000 cells take two
// milliseconds, so there is no index.
const Data = (() => {
  "use strict";

  const numbers = (values, Type = Float64Array) => new Type(values ?? []);

  // The weights: key, name, and how a value is written.
  const WEIGHTS = [
    {
      key: "retained",
      name: "retained",
      help: "born in the span and alive at its end",
      group: "Areas in the span",
      unit: "areas",
    },
    { key: "born", name: "born", help: "born in the span", group: "Areas in the span", unit: "areas" },
    { key: "gone", name: "gone", help: "gone in the span", group: "Areas in the span", unit: "areas" },
    {
      key: "areas",
      name: "areas",
      help: "areas alive in the largest space near its peak",
      group: "Whole trace",
      unit: "areas",
    },
    { key: "bytes", name: "bytes", help: "bytes of these areas", group: "Whole trace", unit: "bytes" },
    { key: "made", name: "ever made", help: "mappings ever made", group: "Whole trace", unit: "mappings" },
    { key: "splits", name: "splits", help: "areas cut in two", group: "Whole trace", unit: "splits" },
    {
      key: "populated",
      name: "populated",
      help: "bytes that became resident in the calls",
      group: "Whole trace",
      unit: "bytes",
    },
    {
      key: "released",
      name: "released",
      help: "bytes that ceased to be resident in the calls",
      group: "Whole trace",
      unit: "bytes",
    },
    { key: "ns", name: "time", help: "time in the calls", group: "Whole trace", unit: "ns" },
    { key: "calls", name: "calls", help: "calls", group: "Whole trace", unit: "calls" },
  ];

  function written(weight, value) {
    if (weight.unit === "bytes") return Dom.bytes(value);
    if (weight.unit === "ns") return Dom.time(value);
    return Dom.count(value);
  }

  function model(trace) {
    const strings = trace.strings ?? [];
    const text = (number) => strings[number] ?? "";
    const { tree, sites, lives, map } = trace;
    const m = {
      trace,
      text,
      kinds: trace.kinds ?? [],
      ns: Math.max(1, trace.ns ?? 0),
      limit: trace.summary?.max_map_count ?? trace.limit,
      usual: trace.summary?.max_map_count == null,
      sites: {
        node: numbers(sites?.node, Int32Array),
        call: numbers(sites?.call, Int32Array),
        text: numbers(sites?.text, Int32Array),
      },
      tree: {
        parent: numbers(tree?.parent, Int32Array),
        name: numbers(tree?.name, Int32Array),
        place: numbers(tree?.place, Int32Array),
        guessed: numbers(tree?.guessed, Uint8Array),
      },
      lives: {
        bin: Math.max(1, lives?.bin_ns ?? 1),
        site: numbers(lives?.site, Int32Array),
        kind: numbers(lives?.kind, Uint8Array),
        born: numbers(lives?.born, Int32Array),
        gone: numbers(lives?.gone, Int32Array),
        areas: numbers(lives?.areas),
        kib: numbers(lives?.kib),
      },
      map: {
        exact: map?.exact ?? true,
        ns: map?.ns ?? 0,
        pages: map?.pages ?? 0,
        spaces: map?.spaces ?? [],
        space: numbers(map?.space, Int32Array),
        start: numbers(map?.start),
        end: numbers(map?.end),
        from: numbers(map?.from),
        to: numbers(map?.to),
        kind: numbers(map?.kind, Uint8Array),
        name: numbers(map?.name, Int32Array),
        site: numbers(map?.site, Int32Array),
        event: numbers(map?.event),
        areas: numbers(map?.areas),
      },
    };
    m.sites.length = m.sites.node.length;
    for (const key of ["inner", "calls", "areas", "bytes", "made", "splits", "ns", "populated", "released"])
      m.sites[key] = numbers(sites?.[key]);
    m.tree.length = m.tree.parent.length;
    // A parent after its child could make a circle.
    m.tree.parent.forEach((parent, node) => {
      if (parent >= node || parent < -1) m.tree.parent[node] = -1;
    });
    m.lives.length = m.lives.site.length;
    m.lives.bins = Math.floor(m.ns / m.lives.bin) + 1;
    m.map.length = m.map.space.length;
    m.hasStacks = m.tree.length > 0;
    m.weights = WEIGHTS.filter(
      ({ key }) => !["populated", "released"].includes(key) || m.sites[key].some((value) => value > 0),
    );
    return m;
  }

  // The cells that a span consists of: first and last.
  function cells(m, span) {
    const { bin, bins } = m.lives;
    const last = span.to >= m.ns ? bins - 1 : Math.ceil(span.to / bin) - 1;
    const first = Math.min(Math.floor(span.from / bin), bins - 1);
    return { first: Math.max(0, first), last: Math.max(first, Math.min(last, bins - 1)) };
  }

  // A span made of whole cells.
  function snap(m, from, to) {
    const inside = (ns) => Math.min(Math.max(Number.isFinite(ns) ? ns : 0, 0), m.ns);
    [from, to] = [Math.min(inside(from), inside(to)), Math.max(inside(from), inside(to))];
    const { first, last } = cells(m, { from, to });
    return { from: first * m.lives.bin, to: Math.min(m.ns, (last + 1) * m.lives.bin) };
  }

  const isWhole = (m, span) => span.from <= 0 && span.to >= m.ns;

  // Areas retained, made and gone in a span: by place, by kind, and in total.
  function lived(m, span) {
    const { first, last } = cells(m, span);
    const { lives } = m;
    const sum = (isIn) => {
      const sums = {
        places: new Float64Array(m.sites.length),
        kinds: new Float64Array(m.kinds.length),
        areas: 0,
        kib: 0,
      };
      const { places, kinds } = sums;
      const { site, kind, areas, kib, born, gone } = lives;
      for (let i = 0; i < lives.length; i += 1) {
        if (!isIn(born[i], gone[i])) continue;
        if (site[i] >= 0 && site[i] < places.length) places[site[i]] += areas[i];
        if (kind[i] < kinds.length) kinds[kind[i]] += areas[i];
        sums.areas += areas[i];
        sums.kib += kib[i];
      }
      return sums;
    };
    return {
      retained: sum((born, gone) => born >= first && born <= last && (gone < 0 || gone > last)),
      born: sum((born) => born >= first && born <= last),
      gone: sum((_, gone) => gone >= first && gone <= last),
    };
  }

  // Places whose call or stack contains a text, in any case.
  function having(m, text) {
    const isIn = (m.trace.strings ?? []).map((string) => string.toLowerCase().includes(text));
    const { tree, sites } = m;
    const nodes = new Uint8Array(tree.length);
    for (let node = 0; node < tree.length; node += 1)
      nodes[node] = isIn[tree.name[node]] || isIn[tree.place[node]] || nodes[tree.parent[node]] === 1 ? 1 : 0;
    return (site) => isIn[sites.text[site]] || isIn[sites.call[site]] || nodes[sites.node[site]] === 1;
  }

  // The weight of each place.
  const weights = (m, key, sums) => (sums[key] ? sums[key].places : m.sites[key]);

  // The areas of some places at the end of each cell.
  function left(m, places) {
    const { lives } = m;
    const all = new Float64Array(lives.bins);
    for (let i = 0; i < lives.length; i += 1) {
      if (!places.has(lives.site[i])) continue;
      if (lives.born[i] < lives.bins) all[lives.born[i]] += lives.areas[i];
      if (lives.gone[i] >= 0 && lives.gone[i] < lives.bins) all[lives.gone[i]] -= lives.areas[i];
    }
    for (let i = 1; i < all.length; i += 1) all[i] += all[i - 1];
    return all;
  }

  // The span from the first area of some places to their peak, or null.
  function growth(m, places) {
    const all = left(m, places);
    const first = m.lives.born.reduce(
      (least, born, i) => (places.has(m.lives.site[i]) ? Math.min(least, born) : least),
      Infinity,
    );
    if (first === Infinity) return null;
    const last = all.reduce((best, n, i) => (n >= all[best] ? i : best), first);
    return snap(m, first * m.lives.bin, (Math.max(first, last) + 1) * m.lives.bin);
  }

  // The functions of a place, the innermost first: name, line of the source, and whether they are
  // guessed.
  function stack(m, site) {
    const frames = [];
    for (let node = m.sites.node[site] ?? -1; node >= 0; node = m.tree.parent[node]) {
      frames.push({
        node,
        name: m.text(m.tree.name[node]),
        place: m.text(m.tree.place[node]),
        guessed: m.tree.guessed[node] === 1,
      });
    }
    return frames;
  }

  const frameText = (frame) => `${frame.guessed ? "? " : ""}${frame.name}${frame.place ? ` at ${frame.place}` : ""}`;

  // The functions of a place, from the innermost one of the program outwards. Functions of the C
  // library and stubs inside of it are left out.
  function callers(m, site) {
    const frames = stack(m, site);
    return frames.slice(Math.min(m.sites.inner[site] ?? 0, Math.max(frames.length - 1, 0)));
  }

  // The kind of a rectangle of the map, and the name of its file if it has one.
  function what(m, rectangle) {
    const kind = m.kinds[m.map.kind[rectangle]] ?? "other";
    const name = m.text(m.map.name[rectangle]);
    return name ? `${kind} ${name}` : kind;
  }

  // A place in one line: its call and the function. If there is a function, the call may be cut.
  function siteText(m, site) {
    if (!(site >= 0 && site < m.sites.length)) return "not known";
    const [frame] = callers(m, site);
    const call = m.text(m.sites.text[site]) || m.text(m.sites.call[site]);
    return frame ? `${Dom.clip(call, 80)} in ${frameText(frame)}` : call;
  }

  // The function of a place, or else the address of its instruction. For a row that has the call
  // already.
  function inFunction(m, site) {
    const [frame] = callers(m, site);
    return frame ? frameText(frame) : m.text(m.sites.text[site]).split(" from ").at(-1);
  }

  return {
    WEIGHTS,
    written,
    model,
    cells,
    snap,
    isWhole,
    lived,
    having,
    weights,
    left,
    growth,
    stack,
    frameText,
    callers,
    siteText,
    what,
    inFunction,
  };
})();
