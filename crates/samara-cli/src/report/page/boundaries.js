// Panel "Why not one": neighbouring areas that are not merged, by reason.
const Boundaries = (() => {
  "use strict";
  const { el } = Dom;

  // The texts of the book's page reference/verdicts.md.
  const REASONS = {
    protection: "one is readable, writable or executable where the other is not",
    flags: "other flags differ: shared or private, left out of core dumps, huge pages, and so on",
    backing: "they map different files or other objects, or only one maps a file",
    "open-file": "they map the same file, but it was opened twice",
    offset: "the second does not go on in the file where the first ends",
    "anonymous-identity":
      "both have private pages of their own, written at different times or inherited through a fork",
    policy: "their NUMA memory policies differ (mbind)",
    name: "a program gave them different names (PR_SET_VMA_ANON_NAME)",
    uffd: "their userfaultfd registrations differ",
    special: "one is not ordinary memory: device memory, or the kernel's own pages",
    lock: "one is locked in memory (mlock) and the other is not",
    accounting: "one is charged against the commit limit and the other is not: it was writable once, or was mapped without MAP_NORESERVE",
    seal: "one is sealed (mseal) and the other is not",
    "anonymous-offset": "private pages of a file were written and then moved to where the file goes on (Linux 7.3)",
    "not-recorded":
      "one was there when the recording began, and what keeps them apart was not recorded: for example a memory policy, or pages that were written or moved before",
  };

  // A reason may have details after a colon: the flags that only one of the two areas has.
  function explained(reason) {
    const [name, ...flags] = reason.split(":");
    if (name === "flags" && flags.length > 0) return `flags: only one of the two has ${flags.join(", only one has ")}.`;
    return REASONS[name] ? `${name}: ${REASONS[name]}.` : null;
  }

  function create(m, app) {
    const groups = new Map();
    for (const boundary of m.trace.boundaries ?? []) {
      const reasons = boundary.reasons ?? [];
      const key = (boundary.text ?? reasons.join(", ")) || "nothing";
      const group = groups.get(key) ?? { key, reasons, count: 0, wouldGo: 0, rows: [] };
      group.count += boundary.count;
      group.wouldGo += boundary.would_go;
      group.rows.push(boundary);
      groups.set(key, group);
    }
    const sorted = [...groups.values()].sort((a, b) => b.count - a.count);
    const boxes = new Map();

    // Who made the area on one side of a boundary, and who changed it last.
    function side(row, at) {
      const made = app.siteLink(row.sites?.[at] ?? -1);
      const changed = row.changed?.[at] ?? -1;
      return changed < 0 ? made : el("div", {}, made, el("div", {}, "changed by ", app.siteLink(changed)));
    }

    function details(group) {
      const rows = [...group.rows].sort((a, b) => b.count - a.count);
      const content = el("div", {});
      const box = el(
        "details",
        { class: "reason" },
        el(
          "summary",
          {},
          el("strong", { text: group.key }),
          ` ${Dom.plural(group.count, "boundary").replace("boundarys", "boundaries")}${group.wouldGo > 0 ? `; without it there would be ${Dom.count(group.wouldGo)} fewer areas` : ""}`,
        ),
        ...group.reasons
          .map(explained)
          .filter((text) => text !== null)
          .map((text) => el("p", { class: "note", text })),
        group.reasons.length === 0
          ? el("p", { class: "note", text: "They could be one: no call has touched them since." })
          : null,
        content,
      );
      box.addEventListener("toggle", () => {
        if (!box.open || content.firstChild) return;
        content.append(
          Dom.table(
            `Areas that touch, apart by ${group.key}`,
            [
              { name: "lower area made by", wide: true, of: (row) => side(row, 0) },
              { name: "upper area made by", wide: true, of: (row) => side(row, 1) },
              { name: "boundaries", number: true, of: (row) => Dom.count(row.count) },
              { name: "areas that would go", number: true, of: (row) => Dom.count(row.would_go) },
            ],
            rows,
            { cap: 30 },
          ),
        );
      });
      boxes.set(group.reasons, box);
      return box;
    }

    const list = sorted.slice(0, Dom.ROWS).map(details);
    if (list.length > 0) list[0].open = true;
    const content =
      list.length === 0
        ? [el("p", { class: "empty", text: "No areas touch without being one." })]
        : [
            el("p", {
              class: "note",
              text: "Linux joins two areas that touch if all that it keeps of a whole area is the same. These are areas of the largest space, near its peak, that touch and are not one, and what differs.",
            }),
            ...list,
            sorted.length > list.length
              ? el("p", {
                  class: "more",
                  text: `… and ${Dom.count(sorted.length - list.length)} more combinations of reasons`,
                })
              : null,
          ];
    return {
      content,
      update(state, changed) {
        if (!changed.has("reason") || state.reason === null) return;
        const asked = state.reason.split(",");
        for (const [reasons, box] of boxes) if (reasons.some((reason) => asked.includes(reason))) box.open = true;
      },
    };
  }

  return { create };
})();
