// A recording in memory, from which the data of a page is made: processes, places and areas that
// come, change and go. It keeps the same things as `samara report` keeps of a trace.
export const KINDS = ["anonymous", "heap", "stack", "file", "code", "no access", "shared", "other"];

// Pseudo-random numbers below a bound, the same each time.
export function random(seed) {
  return (below) => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 4294967296) * below);
  };
}

export class Recording {
  constructor({ program = "prog", ns, bins = 200, cells = 64 }) {
    Object.assign(this, { program, ns, bins, now: 0, event: 0 });
    this.binNs = Math.ceil((ns + 1) / bins);
    this.cellNs = Math.ceil((ns + 1) / cells);
    this.strings = new Map(["", "/usr/lib/x.so"].map((text, i) => [text, i]));
    this.tree = { parent: [], name: [], place: [], guessed: [] };
    this.sites = {
      node: [],
      inner: [],
      call: [],
      text: [],
      calls: [],
      areas: [],
      bytes: [],
      made: [],
      splits: [],
      ns: [],
      populated: [],
      released: [],
    };
    this.areas = [];
    this.rectangles = [];
    this.lives = new Map();
    this.series = KINDS.map(() => new Array(bins).fill(0));
    this.kib = KINDS.map(() => new Array(bins).fill(0));
    this.calls = {};
    this.slowest = [];
    this.durations = {};
    this.processes = [];
    this.seen = 0;
  }

  string(text) {
    if (!this.strings.has(text)) this.strings.set(text, this.strings.size);
    return this.strings.get(text);
  }

  node(parent, name, place = "", guessed = 0) {
    const { tree } = this;
    return (
      [
        tree.parent.push(parent),
        tree.name.push(this.string(name)),
        tree.place.push(this.string(place)),
        tree.guessed.push(guessed),
      ][0] - 1
    );
  }

  site(node, call, text, inner = 0) {
    for (const key of ["calls", "areas", "bytes", "made", "splits", "ns", "populated", "released"])
      this.sites[key].push(0);
    return (
      [
        this.sites.node.push(node),
        this.sites.inner.push(inner),
        this.sites.call.push(this.string(call)),
        this.sites.text.push(this.string(text)),
      ][0] - 1
    );
  }

  process(pid, parent, program) {
    return this.processes.push({ pid, parent, program, begin_ns: this.now, end_ns: null, areas_peak: 0, calls: 0 }) - 1;
  }

  // Areas as they are now count from the moment `ns` on.
  tick(ns) {
    this.note();
    this.now = ns;
  }
  note() {
    const counts = KINDS.map(() => [0, 0]);
    for (const area of this.areas) {
      counts[area.kind][0] += 1;
      counts[area.kind][1] += (area.end - area.start) * 4;
    }
    const to = Math.floor(this.now / this.binNs);
    for (let bin = this.seen; bin <= to; bin += 1) {
      counts.forEach(([areas, kib], kind) => {
        this.series[kind][bin] = Math.max(this.series[kind][bin], areas);
        this.kib[kind][bin] = Math.max(this.kib[kind][bin], kib);
      });
    }
    this.seen = to;
    this.processes.forEach(
      (one, space) =>
        (one.areas_peak = Math.max(one.areas_peak, this.areas.filter((area) => area.space === space).length)),
    );
  }

  call(site, space, ns = 2000, more = {}) {
    const name = [...this.strings.keys()][this.sites.call[site]];
    this.event += 1;
    this.sites.calls[site] += 1;
    this.sites.ns[site] += ns;
    this.processes[space].calls += 1;
    (this.calls[name] ??= new Array(this.bins).fill(0))[Math.floor(this.now / this.binNs)] += 1;
    (this.durations[name] ??= new Array(40).fill(0))[Math.ceil(Math.log2(ns + 1))] += 1;
    const { pid } = this.processes[space];
    this.slowest.push({
      event: this.event,
      pid,
      tid: pid,
      call: `${name}(…) = 0`,
      begin_ns: this.now,
      ns,
      site,
      overlapped: false,
      lock: "mmap_lock, write",
      ...more,
    });
  }

  add(space, start, end, kind, site, born = site) {
    this.areas.push({ space, start, end, kind, site, by: born, from: this.now, born: this.now, event: this.event });
  }

  // An area ends as it was: a rectangle, and, if it is gone, a life.
  close(area, isGone) {
    this.rectangles.push({ ...area, to: this.now });
    if (!isGone) return;
    this.count(area, Math.floor(this.now / this.cellNs));
  }
  count(area, gone) {
    const key = [area.by, area.kind, Math.floor(area.born / this.cellNs), gone].join();
    const cell = this.lives.get(key) ?? {
      site: area.by,
      kind: area.kind,
      born: Math.floor(area.born / this.cellNs),
      gone,
      areas: 0,
      kib: 0,
    };
    cell.areas += 1;
    cell.kib += (area.end - area.start) * 4;
    this.lives.set(key, cell);
  }

  map(space, start, end, kind, site, ns) {
    this.call(site, space, ns);
    this.sites.made[site] += 1;
    this.add(space, start, end, kind, site);
  }

  // Takes pages out of the areas of a space. An area that is cut in the middle becomes two areas.
  cut(space, start, end, site) {
    const cut = this.areas.filter((area) => area.space === space && area.start < end && area.end > start);
    this.areas = this.areas.filter((area) => !cut.includes(area));
    for (const area of cut) {
      this.close(area, true);
      const rest = [
        [area.start, start],
        [end, area.end],
      ].filter(([from, to]) => from < to);
      if (rest.length === 2) this.sites.splits[site] += 1;
      for (const [from, to] of rest) this.add(space, from, to, area.kind, site, area.by);
    }
  }
  unmap(space, start, end, site, ns) {
    this.call(site, space, ns);
    this.cut(space, start, end, site);
  }
  protect(space, start, end, kind, site, ns) {
    this.call(site, space, ns);
    const by = this.areas.find((area) => area.space === space && area.start <= start && area.end >= end)?.by ?? site;
    this.cut(space, start, end, site);
    this.add(space, start, end, kind, site, by);
  }

  // The data of this recording. `more` replaces fields.
  data(more = {}) {
    this.tick(this.ns);
    this.note();
    const { sites } = this;
    for (const area of this.areas) {
      this.rectangles.push({ ...area, to: this.ns });
      this.count(area, -1);
      sites.areas[area.by] += 1;
      sites.bytes[area.by] += (area.end - area.start) * 4096;
    }
    this.areas = [];
    const column = (rows, key) => rows.map((row) => row[key]);
    const cells = [...this.lives.values()];
    const peak = (kinds) =>
      Math.max(
        0,
        ...Array.from({ length: this.bins }, (_, bin) => kinds.reduce((sum, values) => sum + values[bin], 0)),
      );
    const sum = (key) => sites[key].reduce((a, b) => a + b, 0);
    const calls = Object.fromEntries(
      Object.entries(this.calls).map(([name, bins]) => [
        name,
        { count: bins.reduce((a, b) => a + b, 0), failed: 0, total_ns: 0, populated: 0, released: 0 },
      ]),
    );
    return {
      file: "t.samara",
      program: this.program,
      title: `${this.program} ended with 0 after ${(this.ns / 1e6).toFixed(1)} ms; recorded at 2026-01-02T03:04:05.678Z`,
      began: "2026-01-02T03:04:05.678Z",
      damage: null,
      lost: null,
      summary: {
        events: this.event,
        processes: this.processes.length,
        areas_peak: peak(this.series),
        mapped_bytes_peak: peak(this.kib) * 1024,
        splits: sum("splits"),
        merges: 0,
        calls,
        failures: [],
        max_map_count: null,
      },
      why: null,
      ns: this.ns,
      limit: 65530,
      strings: [...this.strings.keys()],
      tree: this.tree,
      sites,
      kinds: KINDS,
      processes: this.processes,
      processes_left_out: 0,
      time: {
        bin_ns: this.binNs,
        bins: this.bins,
        series: [{ pid: null, areas: this.series, bytes: this.kib }],
        calls: this.calls,
      },
      lives: {
        bin_ns: this.cellNs,
        ...Object.fromEntries(["site", "kind", "born", "gone", "areas", "kib"].map((key) => [key, column(cells, key)])),
      },
      map: {
        exact: true,
        ns: 0,
        pages: 0,
        spaces: this.processes.map(({ pid, program, begin_ns, end_ns }) => ({ pid, program, begin_ns, end_ns })),
        ...Object.fromEntries(
          ["space", "start", "end", "from", "to", "kind", "site", "event"].map((key) => [
            key,
            column(this.rectangles, key),
          ]),
        ),
        name: this.rectangles.map((area) => (area.kind === 3 || area.kind === 4 ? 1 : 0)),
        areas: this.rectangles.map(() => 1),
      },
      boundaries: [],
      slowest: this.slowest.sort((a, b) => b.ns - a.ns).slice(0, 500),
      durations: this.durations,
      ...more,
    };
  }
}

export const report = (traces, diff = null) => ({ format: 1, version: "0.1.0", traces, diff });
