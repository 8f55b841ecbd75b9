// Panel "What happened": first the calls that failed, then the verdicts of `samara why` in large
// type. Each verdict has its evidence, its calls and functions, and links to the pictures that show
// it. One line has the facts of the run.
const Verdicts = (() => {
  "use strict";
  const { el } = Dom;
  const SHOWN = 8;
  const FUNCTIONS = 5;

  // The meaning of each kind of verdict.
  const MEANING = {
    "kept-apart":
      "These areas touch, and the kernel may not join them, because something differs from one to the next.",
    fragmented: "Memory was mapped in one piece, and parts of it were unmapped: each hole leaves one more area.",
    leaked: "The program maps, and does not unmap.",
    concurrent: "Each thread has areas of its own; there are as many as there are threads at one time.",
    reserved: "Addresses are held without being used.",
    "no-huge-page": "Huge pages were asked for, and do not fit into these areas.",
    "many-files": "Each file that is mapped is an area of its own, or several.",
    "one-origin": "One place in the program made these areas; why there are this many is not known.",
  };
  const ROLES = { made: "made by", changed: "changed by", freed: "unmapped by", unmapped: "unmapped by" };

  // The address space that a process had at a moment.
  function spaceOf(m, pid, ns) {
    const all = m.map.spaces.map((space, i) => ({ ...space, i })).filter((space) => space.pid === pid);
    return (all.find((space) => space.begin_ns <= ns && (space.end_ns === null || space.end_ns >= ns)) ?? all[0])?.i;
  }

  function part(m, one) {
    const frames = Data.callers(m, one.site);
    const kept = one.kept
      ? `; ${Dom.count(one.kept.alive)} of ${Dom.plural(one.kept.made, "mapping")} still mapped${one.kept.grows ? ", and they came up to this moment" : ""}`
      : "";
    // A place that maps counts with all its mappings, any other call only with those that acted
    // here.
    const times = one.kept ? one.kept.made : one.calls;
    const text =
      one.site >= 0 && one.site < m.sites.length ? m.text(m.sites.text[one.site]) : "a place that is not known";
    const rest = frames.length - FUNCTIONS;
    return el(
      "div",
      { class: "part" },
      el(
        "p",
        {},
        el("span", { class: "role", text: ROLES[one.role] ?? one.role }),
        ` ${Dom.plural(times, "time")}${kept} `,
        el("code", { class: "call", text }),
      ),
      frames.length === 0
        ? null
        : el(
            "ol",
            { class: "stack", "aria-label": "Functions, the innermost first" },
            ...frames
              .slice(0, FUNCTIONS)
              .map((frame, i) =>
                el("li", {}, i === 0 ? el("strong", { text: Data.frameText(frame) }) : Data.frameText(frame)),
              ),
            rest > 0 ? el("li", { class: "note", text: `and ${rest} more` }) : null,
          ),
    );
  }

  function verdict(m, app, why, v, number) {
    const parts = v.parts ?? [];
    const sites = [...new Set(parts.map((one) => one.site))].filter((site) => site >= 0 && site < m.sites.length);
    const culprit = [...parts].reverse().find((one) => one.role === "changed" || one.role === "freed") ?? parts[0];
    const span = sites.length > 0 ? Data.growth(m, new Set(sites)) : null;
    const space = spaceOf(m, why.pid, why.ns);
    const page = Number.isFinite(v.start) ? Math.floor(v.start / 4096) : null;
    const times = span && !Data.isWhole(m, span) ? span : {};
    const isCut = culprit !== undefined && m.sites.splits[culprit.site] > 0;
    const weight = v.verdict === "leaked" ? "retained" : isCut ? "splits" : "areas";
    const link = (text, view) => el("a", { href: app.link({ sites, ...view }), text });
    const links = [
      link("when", { panel: "time", ...times }),
      space === undefined || page === null
        ? null
        : link("where in the address space", { panel: "map", space, at: page }),
      link("who", { panel: "who", weight, ...(weight === "retained" ? times : {}) }),
      v.verdict === "kept-apart"
        ? link("what keeps them apart", { panel: "apart", reason: (v.reasons ?? []).join(",") || null })
        : null,
    ].filter((one) => one !== null);
    return el(
      "article",
      { class: "verdict" },
      el(
        "p",
        { class: "word" },
        el("span", { class: "badge", text: v.word ?? v.verdict }),
        el("span", { class: "note", text: MEANING[v.verdict] ?? "" }),
      ),
      el("h3", { text: v.text ?? v.verdict }),
      v.by ? el("p", { class: "cause", text: `by ${v.by}` }) : null,
      ...(v.advice ?? []).map((one) => el("p", { class: "note", text: `Advice: ${one.text}` })),
      el("p", { class: "links" }, "See ", ...links.flatMap((one, i) => (i === 0 ? [one] : [" · ", one]))),
      parts.length > 0
        ? el(
            "details",
            { open: number === 0 },
            el("summary", { text: "The calls behind it" }),
            el("div", { class: "parts" }, ...parts.map((one) => part(m, one))),
          )
        : null,
      Number.isFinite(v.start) && Number.isFinite(v.end)
        ? el(
            "p",
            { class: "note" },
            "The first at ",
            el("code", { text: `${v.start.toString(16)}-${v.end.toString(16)}` }),
          )
        : null,
    );
  }

  // Calls that failed. The text says if the cause is the limit of areas.
  function failure(m, app, one) {
    const rule = one.refused?.text;
    const isLimit = rule != null || (one.error === "ENOMEM" && m.limit > 0 && one.areas >= m.limit - 3);
    const text = `${one.call} failed with ${one.error}${one.count > 1 ? ` ${Dom.count(one.count)} times` : ""}`;
    const place = one.function ? `, in ${one.function}` : one.caller ? `, from ${one.caller}` : "";
    const first = `, first in process ${one.pid} with ${Dom.plural(one.areas, "area")}, after ${Dom.time(one.ns)}${place}`;
    const why = rule
      ? `${first}: ${rule}`
      : isLimit
        ? `: the process had ${Dom.plural(one.areas, "area")}, and ${m.usual ? "the usual limit is" : "vm.max_map_count is"} ${Dom.count(m.limit)}`
        : first;
    const span = Data.snap(m, one.ns - m.ns / 50, one.ns + m.ns / 50);
    return {
      isLimit,
      node: el(
        "p",
        { class: isLimit ? "alert" : "note" },
        text + why + ". ",
        el("a", { href: app.link({ panel: "time", ...span }), text: "When" }),
      ),
    };
  }

  function facts(m) {
    const { summary = {}, processes = [] } = m.trace;
    const largest = processes.reduce((most, one) => Math.max(most, one.areas_peak), 0);
    const share =
      m.limit > 0 && largest > 0
        ? ` (${((largest / m.limit) * 100).toFixed(largest / m.limit < 0.1 ? 1 : 0)} % of the ${m.usual ? "usual limit" : "limit"} of ${Dom.count(m.limit)})`
        : "";
    const calls = Object.values(summary.calls ?? {});
    const sum = (key) => calls.reduce((all, call) => all + (call[key] ?? 0), 0);
    const list = [
      ["areas, most of one process", Dom.count(largest) + share],
      ["mapped, at most", Dom.bytes(summary.mapped_bytes_peak ?? 0)],
      ["processes", Dom.count(summary.processes ?? processes.length)],
      ["calls", `${Dom.count(sum("count"))}${sum("failed") > 0 ? `, ${Dom.count(sum("failed"))} failed` : ""}`],
      ["splits, merges", `${Dom.count(summary.splits ?? 0)}, ${Dom.count(summary.merges ?? 0)}`],
      ["time", Dom.time(m.trace.ns ?? 0)],
    ];
    return el(
      "dl",
      { class: "facts" },
      ...list.map(([name, value]) => el("div", {}, el("dt", { text: name }), el("dd", { text: value }))),
    );
  }

  function create(m, app) {
    const { why, summary = {} } = m.trace;
    const failures = (summary.failures ?? []).map((one) => failure(m, app, one)).sort((a, b) => b.isLimit - a.isLimit);
    const verdicts = why?.verdicts ?? [];
    const all = el("div", { class: "verdicts" }, ...verdicts.slice(0, SHOWN).map((v, i) => verdict(m, app, why, v, i)));
    const rest = verdicts.length - SHOWN;
    const nothing = why
      ? `Nothing stands out: ${Dom.plural(why.areas ?? 0, "area")} of process ${why.pid}, near its most, without a verdict.`
      : (summary.events ?? 0) === 0
        ? "Nothing happened: the trace has no events."
        : "There is no verdict on this trace.";
    const about =
      why && verdicts.length > 0
        ? `Process ${why.pid} (${why.program}), close to its peak, after ${Dom.time(why.ns)}: ${Dom.plural(why.areas, "area")}, ${Dom.bytes(why.bytes)} mapped${why.others > 0 ? `; ${Dom.count(why.others)} without a verdict` : ""}. An area is a line of /proc/PID/maps.`
        : "An area is a line of /proc/PID/maps.";
    return {
      content: [
        facts(m),
        el("p", { class: "note", text: about }),
        ...failures.slice(0, SHOWN).map((one) => one.node),
        verdicts.length > 0 ? all : el("article", { class: "verdict" }, el("h3", { text: nothing })),
        rest > 0
          ? el("p", { class: "more", text: `… and ${Dom.plural(rest, "more verdict")}; samara why has them all` })
          : null,
      ],
      update() {},
    };
  }

  return { create };
})();
