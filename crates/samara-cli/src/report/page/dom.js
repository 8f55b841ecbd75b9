// Elements, texts and tables, and how numbers are written. Each text of a trace becomes a text node
// and is never parsed as markup. Knows nothing of traces.
const Dom = (() => {
  "use strict";

  // The most rows of a table. Further rows are counted, and shown on request.
  const ROWS = 100;

  // An element. `props` may have `class`, `text`, `on` (listeners by event) and `data`. Other
  // functions and booleans are set as properties, everything else as attributes.
  function el(tag, props = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(props)) {
      if (value === undefined || value === null) continue;
      if (name === "class") node.className = value;
      else if (name === "text") node.textContent = value;
      else if (name === "on")
        for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
      else if (typeof value === "boolean") node[name] = value;
      else node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  }

  const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
  const count = (n) => grouped.format(n);
  const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

  // Three significant digits, as `samara` writes them: 1.03, 12.4, 846.
  function digits(n) {
    if (n === 0) return "0";
    const places = n < 10 ? 2 : n < 100 ? 1 : 0;
    return n.toFixed(places);
  }

  function bytes(n) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = 0;
    while (n >= 1024 && unit < units.length - 1) {
      n /= 1024;
      unit += 1;
    }
    return `${unit === 0 || Number.isInteger(n) ? count(n) : digits(n)} ${units[unit]}`;
  }

  function time(ns) {
    if (ns < 0) return `-${time(-ns)}`;
    if (ns < 1e3) return `${count(ns)} ns`;
    if (ns < 999.5e3) return `${digits(ns / 1e3)} us`;
    if (ns < 999.5e6) return `${digits(ns / 1e6)} ms`;
    if (ns < 600e9) return `${digits(ns / 1e9)} s`;
    return `${count(ns / 60e9)} min`;
  }

  // The address of a page, as in /proc/PID/maps. It is exact: a double holds it, as a multiple of
  // 4096.
  const address = (page) => (page * 4096).toString(16).padStart(8, "0");
  const range = (start, end) => `${address(start)}-${address(end)}`;

  const clip = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

  // A table. `columns`: array of `name`, `of(row)` (a text or an element), `number` (right
  // aligned), `sort` (a key, which makes the heading a button), `wide`. More than `cap` rows are
  // left out and counted.
  function table(caption, columns, rows, { cap = ROWS, sorted = null, onSort = null, mark = null, hide = true } = {}) {
    const head = el("tr");
    for (const column of columns) {
      const cell = el("th", { scope: "col", class: column.number ? "number" : null });
      if (column.sort && onSort) {
        const isSorted = column.sort === sorted;
        if (isSorted) cell.setAttribute("aria-sort", "descending");
        cell.append(
          el("button", {
            type: "button",
            class: "sort",
            text: column.name + (isSorted ? " ▾" : ""),
            on: { click: () => onSort(column.sort) },
          }),
        );
      } else {
        cell.textContent = column.name;
      }
      head.append(cell);
    }
    const body = el("tbody");
    const append = (from, to) => {
      for (const row of rows.slice(from, to)) {
        const line = el("tr", { class: mark && mark(row) ? "marked" : null });
        columns.forEach((column, i) => {
          const cell = el(i === 0 && !column.number ? "th" : "td", {
            class: column.number ? "number" : column.wide ? "wide" : null,
          });
          if (i === 0 && !column.number) cell.scope = "row";
          const content = column.of(row);
          cell.append(content === null || content === undefined ? "" : content);
          line.append(cell);
        });
        body.append(line);
      }
    };
    append(0, cap);
    const whole = el(
      "table",
      {},
      el("caption", { class: hide ? "hidden" : null, text: caption }),
      el("thead", {}, head),
      body,
    );
    const box = el("div", { class: "table" }, whole);
    let shown = Math.min(cap, rows.length);
    if (shown < rows.length) {
      const more = el("p", { class: "more" });
      const told = el("span", {});
      const button = el("button", { type: "button" });
      const tell = () => {
        told.textContent = `… and ${count(rows.length - shown)} more `;
        button.textContent = `Show ${count(Math.min(500, rows.length - shown))} of them`;
        if (shown === rows.length) more.remove();
      };
      button.addEventListener("click", () => {
        append(shown, shown + 500);
        shown = Math.min(shown + 500, rows.length);
        tell();
      });
      tell();
      more.append(told, button);
      box.append(more);
    }
    return box;
  }

  // A table below a picture. It is made when it is opened, and again when the picture changes.
  function behind(title, make) {
    const content = el("div", {});
    const box = el("details", { class: "behind" }, el("summary", { text: title }), content);
    const fill = () => {
      if (box.open) content.replaceChildren(make());
    };
    box.addEventListener("toggle", fill);
    return { box, update: fill };
  }

  // A label and a select element.
  function choice(label, options, value, onChange) {
    const select = el("select", { on: { change: () => onChange(select.value) } });
    for (const option of options) {
      const item = el("option", { value: option.value, text: option.text });
      if (option.group === undefined) {
        select.append(item);
        continue;
      }
      let group = [...select.children].find((child) => child.label === option.group);
      if (!group) select.append((group = el("optgroup", { label: option.group })));
      group.append(item);
    }
    select.value = value;
    return { box: el("label", { class: "field" }, el("span", { text: label }), select), select };
  }

  function button(text, onClick, props = {}) {
    return el("button", { type: "button", text, on: { click: onClick }, ...props });
  }

  // A canvas as wide as its box, in pixels of the screen. `draw` is called when its size changes.
  function canvas(height, props, draw) {
    const node = el("canvas", props);
    const box = el("div", { class: "canvas" }, node);
    const size = { width: 0, height, ratio: 1 };
    const resize = () => {
      const ratio = Math.min(window.devicePixelRatio || 1, 3);
      const width = Math.max(1, Math.floor(box.clientWidth));
      if (width === size.width && ratio === size.ratio && size.height === size.drawn) return;
      Object.assign(size, { width, ratio, drawn: size.height });
      node.width = Math.round(width * ratio);
      node.height = Math.round(size.height * ratio);
      node.style.width = `${width}px`;
      node.style.height = `${size.height}px`;
      draw();
    };
    new ResizeObserver(resize).observe(box);
    // Printing does not wait for an observer.
    window.addEventListener("beforeprint", resize);
    return { node, box, size, resize };
  }

  // A summary of a change for screen readers, which read it when they are idle.
  function announcer() {
    return el("p", { class: "hidden", role: "status", "aria-live": "polite" });
  }

  return {
    ROWS,
    el,
    count,
    plural,
    bytes,
    time,
    address,
    range,
    clip,
    table,
    behind,
    choice,
    button,
    canvas,
    announcer,
  };
})();
