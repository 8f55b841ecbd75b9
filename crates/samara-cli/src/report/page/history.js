// The history of an address: every area that held it, the calls that made or changed it, and when.
// Knows the rectangles of the map; nothing of how they are drawn.
const AddressHistory = (() => {
  "use strict";
  const { el } = Dom;

  // Columns of a table whose rows are rectangles.
  const columns = (m, app) => [
    { name: "from", of: (r) => Dom.time(m.map.from[r]) },
    { name: "to", number: true, of: (r) => (m.map.to[r] >= m.ns ? "the end" : Dom.time(m.map.to[r])) },
    { name: "addresses", of: (r) => el("code", { text: Dom.range(m.map.start[r], m.map.end[r]) }) },
    { name: "size", number: true, of: (r) => Dom.bytes((m.map.end[r] - m.map.start[r]) * 4096) },
    { name: "what", of: (r) => Data.what(m, r) },
    { name: "areas", number: true, of: (r) => Dom.count(m.map.areas[r]) },
    { name: "event", number: true, of: (r) => Dom.count(m.map.event[r]) },
    { name: "made or changed by", wide: true, of: (r) => app.siteLink(m.map.site[r]) },
  ];

  function create(m, app, rectangles) {
    const { map } = m;
    const field = el("input", {
      type: "text",
      size: "16",
      spellcheck: "false",
      autocomplete: "off",
      placeholder: "7f25e9820000",
    });
    const told = el("p", { class: "note", role: "status" });
    const result = el("div", {});
    const form = el(
      "form",
      {
        class: "controls",
        on: {
          submit: (event) => {
            event.preventDefault();
            const text = field.value.trim().replace(/^0x/i, "");
            if (!/^[0-9a-f]{1,16}$/i.test(text)) told.textContent = "An address is hexadecimal, as in /proc/PID/maps.";
            else app.set({ at: Number(BigInt(`0x${text}`) / 4096n) });
          },
        },
      },
      el("label", { class: "field" }, el("span", { text: "History of address" }), field),
      el("button", { text: "Show" }),
      Dom.button("Close", () => app.set({ at: null })),
    );
    return {
      box: el("div", { class: "history" }, form, told, result),
      update(page) {
        if (page === null) {
          told.textContent = "";
          return void result.replaceChildren();
        }
        field.value = Dom.address(page);
        const rows = [...rectangles()]
          .filter((r) => map.start[r] <= page && page < map.end[r])
          .sort((a, b) => map.from[a] - map.from[b]);
        const exact = map.exact ? "" : " Changes that were drawn as one are one row.";
        told.textContent =
          rows.length === 0
            ? `Nothing was ever mapped at ${Dom.address(page)} in this process.`
            : `${Dom.plural(rows.length, "area")} held ${Dom.address(page)}.${exact}`;
        result.replaceChildren(
          rows.length === 0 ? "" : Dom.table(`History of ${Dom.address(page)}`, columns(m, app), rows, { hide: false }),
        );
      },
    };
  }

  return { create, columns };
})();
