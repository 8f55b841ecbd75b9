// The data of the pages under test: an allocator with guards, a leak, a trace without call stacks,
// one without events, one of the largest size for a page, hostile names, two traces, a damaged
// trace. `node make.mjs DIRECTORY` writes them as pages.
import { mkdirSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { KINDS, Recording, random, report } from "./recording.mjs";
import { render } from "./render.mjs";

const [ANONYMOUS, HEAP, STACK, FILE, CODE, NO_ACCESS] = KINDS.keys();
const BASE = 0x7f25e9820;

// Maps a program at its start: its file, its loader, its stack. Returns its main function.
function start(r, pid, isWithStacks) {
  const space = r.process(pid, null, r.program);
  const root = isWithStacks ? r.node(-1, "_start") : -1;
  const main = isWithStacks ? r.node(root, "main", "/src/app.c:8") : -1;
  const exec = r.site(-1, "execve", "the start of the program");
  r.call(exec, space, 400_000);
  for (const [from, to, kind] of [
    [0x400, 0x401, FILE],
    [0x401, 0x40a, CODE],
    [0x40a, 0x40c, FILE],
    [0x1a2b, 0x1a4c, HEAP],
    [0x7ffc12340, 0x7ffc12361, STACK],
  ]) {
    r.sites.made[exec] += 1;
    r.add(space, from, to, kind, exec);
  }
  return { space, main, exec };
}

const verdict = (more) => ({
  pattern: null,
  reasons: [],
  would_go: 0,
  bytes: 0,
  times: 0,
  common_size: 0,
  common_times: 0,
  smallest: 0,
  largest: 0,
  parts: [],
  ...more,
});

export function guards({ chunks = 2000, isWithStacks = true } = {}) {
  const ns = 800e6;
  const r = new Recording({ program: "/tmp/rec/guard_pages 2000", ns });
  const { space, main, exec } = start(r, 22097, isWithStacks);
  const grow = isWithStacks ? r.node(main, "arena_grow", "/src/arena.c:31") : -1;
  const wrapper = isWithStacks ? r.node(grow, "__GI___mmap64", "mmap64.c:58") : -1;
  const guard = isWithStacks ? r.node(main, "guard", "/src/arena.c:44", 1) : -1;
  const mmap = r.site(
    wrapper,
    "mmap",
    `mmap(NULL, ${chunks * 20480}, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) from /tmp/rec/guard_pages+0x11a2`,
    isWithStacks ? 1 : 0,
  );
  const mprotect = r.site(
    guard,
    "mprotect",
    "mprotect(0x7f25e9820000, 4096, PROT_NONE) from /tmp/rec/guard_pages+0x11f0",
  );
  const munmap = r.site(main, "munmap", "munmap(0x7f2600000000, 1048576) from /tmp/rec/guard_pages+0x1250");
  r.tick(20e6);
  r.map(space, BASE, BASE + chunks * 5, ANONYMOUS, mmap, 45_700);
  const next = random(1);
  for (let i = 0; i < chunks; i += 1) {
    r.tick(Math.floor(30e6 + (700e6 * i) / chunks));
    r.protect(
      space,
      BASE + i * 5 + 4,
      BASE + i * 5 + 5,
      NO_ACCESS,
      mprotect,
      1500 + next(9000) + (i % 97 === 0 ? 800_000 : 0),
    );
    if (i % 100 === 50) {
      r.map(space, 0x7f2600000, 0x7f2600100, ANONYMOUS, mmap, 9000);
      r.tick(r.now + 50_000);
      r.unmap(space, 0x7f2600000, 0x7f2600100, munmap, 7000);
    }
  }
  r.tick(750e6);
  r.slowest.push({
    event: r.event,
    pid: 22097,
    tid: 22098,
    call: "munmap(0x7f2600000000, 1048576) = 0",
    begin_ns: 400e6,
    ns: 12e6,
    site: munmap,
    overlapped: true,
    lock: null,
  });
  const areas = chunks * 2 + 5;
  const data = r.data();
  data.summary.max_map_count = chunks * 2 + 6;
  data.summary.failures = [
    { call: "mprotect", error: "ENOMEM", count: 12, pid: 22097, areas: chunks * 2 + 6, ns: 740e6 },
    {
      call: "mmap",
      error: "EINVAL",
      count: 1,
      pid: 22097,
      areas: 7,
      ns: 21e6,
      function: "grow at arena.c:9",
      refused: { by: "no-length", text: "the length is 0" },
    },
  ];
  data.boundaries = [
    { reasons: ["protection"], sites: [mmap, mmap], changed: [-1, mprotect], count: chunks, would_go: chunks },
    { reasons: ["protection"], sites: [mmap, mmap], changed: [mprotect, -1], count: chunks - 1, would_go: chunks - 1 },
    { reasons: ["backing", "offset"], sites: [exec, exec], count: 2, would_go: 0 },
    { reasons: ["accounting"], sites: [exec, -1], count: 1, would_go: 1 },
  ];
  data.why = {
    format: 1,
    pid: 22097,
    program: "/tmp/rec/guard_pages",
    ns: 730e6,
    areas,
    bytes: chunks * 20480,
    others: 5,
    sites: [],
    verdicts: [
      verdict({
        verdict: "kept-apart",
        word: "kept apart",
        pattern: "guard-pages",
        reasons: ["protection"],
        areas: chunks * 2,
        would_go: chunks * 2 - 1,
        bytes: chunks * 20480,
        times: chunks,
        common_size: 4096,
        text: `${(chunks * 2).toLocaleString("en-US")} areas with ${chunks.toLocaleString("en-US")} guards of 4 KiB between them; without the guards there would be ${(chunks * 2 - 1).toLocaleString("en-US")} fewer`,
        by: isWithStacks ? "mprotect in ? guard at /src/arena.c:44" : "mprotect",
        start: (BASE + 4) * 4096,
        end: (BASE + 5) * 4096,
        parts: [
          { role: "made", site: mmap, times: 1, kept: { made: 1, alive: 1, bytes: chunks * 20480, grows: false } },
          { role: "changed", site: mprotect, times: chunks, calls: chunks, kept: null },
        ],
      }),
    ],
  };
  return report([data]);
}

export function leaked({ pieces = 1200, file = "leak.samara" } = {}) {
  const ns = 1000e6;
  const r = new Recording({ program: "/usr/bin/leak --every 3", ns });
  const { space, main } = start(r, 300, true);
  const load = r.node(main, "load_segment", "/src/index.rs:210");
  const drop = r.node(main, "drop_segment", "/src/index.rs:260");
  const mmap = r.site(load, "mmap", "mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3, 0) from /usr/bin/leak+0x4410");
  const munmap = r.site(drop, "munmap", "munmap(0x7f25e9820000, 8192) from /usr/bin/leak+0x4500");
  const scratch = r.site(
    r.node(main, "scratch", "/src/index.rs:90"),
    "mmap",
    "mmap(NULL, 65536, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) from /usr/bin/leak+0x4610",
  );
  const child = r.process(301, 300, "/usr/bin/helper");
  r.tick(5e6);
  r.map(child, 0x500, 0x600, ANONYMOUS, scratch, 5000);
  for (let i = 0; i < pieces; i += 1) {
    r.tick(Math.floor(10e6 + (900e6 * i) / pieces));
    r.map(space, BASE + i * 4, BASE + i * 4 + 2, FILE, mmap, 3000 + (i % 7) * 700);
    if (i % 3 === 0) {
      r.map(space, 0x7f3000000, 0x7f3000010, ANONYMOUS, scratch, 2500);
      r.tick(r.now + 300_000);
      r.unmap(space, 0x7f3000000, 0x7f3000010, munmap, 2600);
    }
    if (i % 12 === 11) r.unmap(space, BASE + (i - 5) * 4, BASE + (i - 5) * 4 + 2, munmap, 2600);
  }
  r.processes[child].end_ns = 500e6;
  const data = r.data({ file });
  const alive = data.sites.areas[mmap];
  data.why = {
    format: 1,
    pid: 300,
    program: "/usr/bin/leak",
    ns,
    areas: alive + 5,
    bytes: alive * 8192,
    others: 5,
    sites: [],
    verdicts: [
      verdict({
        verdict: "leaked",
        word: "never unmapped",
        areas: alive,
        bytes: alive * 8192,
        times: alive,
        common_size: 8192,
        text: `${alive.toLocaleString("en-US")} areas, ${((alive * 8192) / 1048576).toFixed(2)} MiB: ${alive} of ${pieces} mappings are still there, and they came up to this moment`,
        start: BASE * 4096,
        end: (BASE + 2) * 4096,
        parts: [
          { role: "made", site: mmap, times: pieces, kept: { made: pieces, alive, bytes: alive * 8192, grows: true } },
        ],
      }),
    ],
  };
  return report([data]);
}

export function noStacks() {
  const page = guards({ chunks: 100, isWithStacks: false });
  page.traces[0].summary.max_map_count = null;
  page.traces[0].summary.failures = [];
  page.traces[0].why = null;
  return page;
}

export function zero() {
  const data = new Recording({ program: "true", ns: 0 }).data();
  Object.assign(data, { ns: 0, lives: { bin_ns: 1, site: [], kind: [], born: [], gone: [], areas: [], kib: [] } });
  data.time = { bin_ns: 1, bins: 0, series: [], calls: {} };
  return report([data]);
}

export function damaged() {
  const page = leaked({ pieces: 60 });
  page.traces[0].damage = "the trace ends early: the file ends in the middle of a batch, at offset 4096";
  page.traces[0].lost = "spaces could not be followed to the end: they take more than 512 MiB";
  page.traces[0].map.exact = false;
  Object.assign(page.traces[0].map, { ns: 1000, pages: 16 });
  page.traces[0].map.areas = page.traces[0].map.areas.map((_, i) => 1 + (i % 3));
  return page;
}

export function two() {
  const [before, after] = [
    leaked({ pieces: 300, file: "old.samara" }),
    leaked({ pieces: 1200, file: "new.samara" }),
  ].map((page) => page.traces[0]);
  const side = (trace) => ({
    pid: 300,
    program: "/usr/bin/leak",
    ns: trace.ns,
    areas: trace.why.areas,
    bytes: trace.why.bytes,
    splits: trace.summary.splits,
    merges: 0,
  });
  const sums = (trace) => ({
    areas: trace.sites.areas[1],
    bytes: trace.sites.bytes[1],
    made: trace.sites.made[1],
    splits: 0,
  });
  return report([before, after], {
    format: 1,
    before: side(before),
    after: side(after),
    over: 0,
    has_grown: true,
    reasons: [
      { reason: "offset", before: 99, after: 2999 },
      { reason: null, before: 4, after: 3 },
    ],
    places: [
      {
        kind: "call",
        call: "mmap",
        first_call: "mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3, 0)",
        functions: ["load_segment", "main"],
        before: sums(before),
        after: sums(after),
      },
    ],
  });
}

// Names that forge lines, command a terminal, turn or hide text, are markup, or look like escapes.
export const HOSTILE = [
  "<script>window.harm = 1</script>",
  "</script><script>window.harm = 1</script>",
  "<img src=x onerror='window.harm = 1'>",
  "<!--<script>",
  "--><svg onload=window.harm=1>",
  "{{ data }}",
  "${window.harm = 1}",
  "javascript:window.harm=1",
  "&lt;b&gt;",
  "'\"$`\\",
  "]]>",
  "\u001b[31m",
  "\u001b]0;x\u0007",
  "\u007f\u009b2J",
  "\u202eevil",
  "\u2066\u2028\u2029",
  "\ufeff",
  "a\nffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0",
  "\\012",
  "__proto__",
  "constructor",
  "toString",
  "x".repeat(5000),
  "\ud800",
  "ü",
];

export function hostile() {
  const page = leaked({ pieces: 100 });
  const [data] = page.traces;
  const name = (i) => HOSTILE[i % HOSTILE.length];
  data.strings = data.strings.map((text, i) => (i === 0 ? "" : name(i) + text));
  HOSTILE.forEach((text) => {
    data.strings.push(text);
    data.sites.node.push(0);
    data.sites.inner.push(0);
    data.sites.call.push(data.strings.length - 1);
    data.sites.text.push(data.strings.length - 1);
    for (const key of ["calls", "areas", "bytes", "made", "splits", "ns", "populated", "released"])
      data.sites[key].push(1);
  });
  data.map.name = data.map.name.map((_, i) => data.strings.length - 1 - (i % HOSTILE.length));
  data.program = HOSTILE[1];
  data.title = HOSTILE[2];
  data.file = HOSTILE[0];
  data.damage = HOSTILE[4];
  data.lost = HOSTILE[3];
  data.processes = HOSTILE.map((program, i) => ({
    pid: 300 + i,
    parent: i === 0 ? 300 : 300 + (i % 4),
    program,
    begin_ns: 0,
    end_ns: null,
    areas_peak: 1,
    calls: 1,
  }));
  data.map.spaces = data.processes.map(({ pid, program, begin_ns, end_ns }) => ({ pid, program, begin_ns, end_ns }));
  data.boundaries = HOSTILE.map((text, i) => ({ reasons: [text], sites: [i % 3, -1], count: 1, would_go: 1 }));
  data.slowest.forEach((call, i) => Object.assign(call, { call: name(i), lock: name(i + 1) }));
  data.time.calls = Object.fromEntries(HOSTILE.map((text) => [text, [1]]));
  data.durations = Object.fromEntries(HOSTILE.map((text) => [text, [0, 0, 1]]));
  data.summary.failures = HOSTILE.map((text) => ({ call: text, error: text, count: 1, pid: 300, areas: 3, ns: 5 }));
  data.why.program = HOSTILE[0];
  Object.assign(data.why.verdicts[0], { text: HOSTILE[0] + HOSTILE[2], word: HOSTILE[1], reasons: [HOSTILE[4]] });
  page.version = HOSTILE[2];
  return page;
}

// The largest page: 60,000 rectangles, 200,000 cells of lives, 20,000 places, 4,096 processes.
export function huge({ rectangles = 60_000, cells = 200_000, places = 20_000, processes = 4096 } = {}) {
  const next = random(7);
  const ns = 60e9;
  const list = (n, of) => Array.from({ length: n }, (_, i) => of(i));
  const strings = [
    "",
    "mmap",
    "munmap",
    "mprotect",
    ...list(4000, (i) => `function_${i}`),
    ...list(4000, (i) => `/src/file_${i}.c:${i}`),
  ];
  strings.push(
    ...list(
      places,
      (i) => `mmap(NULL, ${4096 * (i + 1)}, PROT_READ, MAP_PRIVATE, 3, 0) from /lib/x+0x${(i * 16).toString(16)}`,
    ),
  );
  const nodes = 30_000;
  const tree = {
    parent: list(nodes, (i) => (i === 0 ? -1 : Math.max(0, i - 1 - next(Math.min(i, 400))))),
    name: list(nodes, () => 4 + next(4000)),
    place: list(nodes, () => 4004 + next(4000)),
    guessed: list(nodes, () => (next(20) === 0 ? 1 : 0)),
  };
  const some = (most) => list(places, () => (next(4) === 0 ? next(most) : next(3)));
  const sites = {
    node: list(places, () => next(nodes)),
    call: list(places, () => 1 + next(3)),
    text: list(places, (i) => 8004 + i),
    calls: some(1000),
    areas: some(100),
    bytes: some(1e6),
    made: some(500),
    splits: some(50),
    ns: some(1e7),
    populated: some(1e6),
    released: some(1e5),
  };
  const bins = 1024;
  const series = () => KINDS.map((_, k) => list(bins, (i) => Math.floor(((i * (k + 1)) / 8) * 3 + next(200))));
  const lives = { bin_ns: Math.ceil((ns + 1) / 256), site: [], kind: [], born: [], gone: [], areas: [], kib: [] };
  for (let i = 0; i < cells; i += 1) {
    const born = next(256);
    lives.site.push(next(places));
    lives.kind.push(next(8));
    lives.born.push(born);
    lives.gone.push(next(3) === 0 ? -1 : Math.min(255, born + next(60)));
    lives.areas.push(1 + next(4));
    lives.kib.push(4 * (1 + next(64)));
  }
  const map = {
    exact: false,
    ns: 1e6,
    pages: 1,
    spaces: list(16, (i) => ({ pid: 100 + i, program: `/usr/bin/worker_${i}`, begin_ns: 0, end_ns: null })),
    space: [],
    start: [],
    end: [],
    from: [],
    to: [],
    kind: [],
    site: [],
    event: [],
    areas: [],
  };
  for (let i = 0; i < rectangles; i += 1) {
    const column = next(100);
    const page = BASE + (i % 12_000) * 9 + (i % 12_000 > 8000 ? 1e6 : 0);
    const from = Math.floor((ns * column) / 100);
    map.space.push(i % 3 === 0 ? 1 + next(15) : 0);
    map.start.push(page);
    map.end.push(page + 1 + next(8));
    map.from.push(from);
    map.to.push(Math.min(ns, from + next(ns / 20)));
    map.kind.push(next(8));
    map.site.push(next(places));
    map.event.push(i);
    map.areas.push(1);
  }
  const shape = { pid: 100, program: "/usr/bin/worker_0", ns, areas: 24_000, bytes: 1e9, others: 3 };
  const data = new Recording({ program: "/usr/bin/worker --threads 64", ns }).data({
    summary: {
      events: 12e6,
      processes: 10_000,
      areas_peak: 28_000,
      mapped_bytes_peak: 4e9,
      splits: 1e5,
      merges: 2e4,
      calls: { mmap: { count: 1e6, failed: 0 } },
      failures: [],
      max_map_count: null,
    },
    strings,
    tree,
    sites,
    lives,
    map,
    processes: list(processes, (i) => ({
      pid: 100 + i,
      parent: i === 0 ? null : 100 + next(i),
      program: `/usr/bin/worker_${i}`,
      begin_ns: next(ns / 2),
      end_ns: ns / 2 + next(ns / 2),
      areas_peak: next(3000),
      calls: next(10_000),
    })),
    processes_left_out: 5904,
    time: {
      bin_ns: Math.ceil((ns + 1) / bins),
      bins,
      series: [null, 100, 101, 102, 103, 104, 105, 106, 107].map((pid) => ({ pid, areas: series(), bytes: series() })),
      calls: Object.fromEntries(
        ["mmap", "munmap", "mprotect", "brk", "madvise"].map((name) => [name, list(bins, () => next(500))]),
      ),
    },
    boundaries: list(2000, (i) => ({
      reasons: [["protection", "offset", "backing", "accounting"][i % 4]],
      sites: [next(places), next(places)],
      count: 1 + next(9),
      would_go: next(4),
    })),
    slowest: list(500, (i) => ({
      event: i,
      pid: 100,
      tid: 100 + (i % 9),
      call: `munmap(0x7f25e9820000, ${4096 * (i + 1)}) = 0`,
      begin_ns: next(ns),
      ns: next(1e8),
      site: next(places),
      overlapped: i % 3 === 0,
      lock: "mmap_lock, write",
    })),
    durations: Object.fromEntries(
      ["mmap", "munmap", "mprotect", "brk", "madvise"].map((name) => [
        name,
        list(36, (i) => (i < 10 ? 0 : next(5000))),
      ]),
    ),
    why: {
      format: 1,
      ...shape,
      sites: [],
      verdicts: list(12, (i) =>
        verdict({
          verdict: "fragmented",
          word: "fragmented",
          areas: 2000 - i,
          would_go: 1000,
          bytes: 1e8,
          times: 1000,
          common_size: 4096,
          text: `${2000 - i} areas around 1,000 holes of 4 KiB, where parts were unmapped`,
          start: BASE * 4096,
          end: (BASE + 1) * 4096,
          parts: list(3, (j) => ({
            role: ["made", "changed", "freed"][j],
            site: next(places),
            times: 100,
            kept: null,
          })),
        }),
      ),
    },
  });
  return report([data]);
}

export const PAGES = { guards, leaked, noStacks, zero, damaged, two, hostile, huge };

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const directory = process.argv[2] ?? ".";
  mkdirSync(directory, { recursive: true });
  for (const [name, make] of Object.entries(PAGES))
    writeFileSync(`${directory}/${name}.html`, render(make(), { title: name, words: "kept apart: <b>text</b>" }));
}
