// Panel "Address space": the areas of one process, address by time. It has its own window of time
// and addresses. A new span sets the window's time. Knows the fold and the raster; nothing of other
// panels.
const AddressMap = (() => {
  "use strict";
  const { el } = Dom;
  const HEIGHT = 460;
  const MARGIN = { left: 116, right: 10, bottom: 22 };

  function create(m, app) {
    const { map } = m;
    let space = -1;
    let scale = "even";
    let which = [];
    let fold = null;
    let edges = null;
    let view = { from: 0, to: m.ns, low: 0, high: 1 };
    let image = null;
    let cursor = null;
    let marked = new Set();
    // The page whose history is shown.
    let asked = null;

    const tooltip = el("div", { class: "tooltip", hidden: true });
    const status = Dom.announcer();
    const canvas = Dom.canvas(
      HEIGHT,
      {
        tabindex: "0",
        role: "application",
        "aria-label":
          "Address space over time. Arrow keys go from area to area and from change to change, with shift they move the window; plus and minus zoom addresses, t and shift t zoom time; home shows all; enter tells the history of an address.",
      },
      () => draw(),
    );
    canvas.box.append(tooltip);
    const context = canvas.node.getContext("2d");
    const picture = () => ({
      width: Math.max(1, canvas.size.width - MARGIN.left - MARGIN.right),
      height: canvas.size.height - MARGIN.bottom,
    });

    // The rectangles of a space, and their heights.
    function load(number) {
      space = number;
      const all = [];
      for (let r = 0; r < map.length; r += 1) if (map.space[r] === space) all.push(r);
      which = Int32Array.from(all);
      refold();
    }
    function refold() {
      fold = Fold.create(map, which, scale);
      edges = { tops: new Float64Array(which.length), bottoms: new Float64Array(which.length) };
      which.forEach((r, n) => {
        edges.tops[n] = fold.height(map.start[r]);
        edges.bottoms[n] = fold.height(map.end[r]);
      });
      all();
      if (!Data.isWhole(m, app.span)) view = { ...view, from: app.span.from, to: app.span.to };
      cursor = null;
    }

    // The rectangle at a moment and a page; -1 if there is none.
    function at(ns, page) {
      for (const r of which)
        if (map.start[r] <= page && page < map.end[r] && map.from[r] <= ns && ns <= map.to[r]) return r;
      return -1;
    }
    const xOf = (ns) => MARGIN.left + ((ns - view.from) / (view.to - view.from)) * picture().width;
    const yOf = (height) => ((height - view.low) / (view.high - view.low)) * picture().height;
    const nsOf = (x) => view.from + ((x - MARGIN.left) / picture().width) * (view.to - view.from);
    const heightOf = (y) => view.low + (y / picture().height) * (view.high - view.low);

    function draw() {
      if (!fold || canvas.size.width < 2) return;
      const { ratio } = canvas.size;
      const { width, height } = picture();
      const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
      if (!image || image.width !== w || image.height !== h) image = new ImageData(w, h);
      Raster.draw(image, map, which, edges, view, m.kinds, marked);
      overlay();
    }

    // The picture, the axes and the cursor.
    function overlay() {
      if (!image) return;
      const { ratio, width: full } = canvas.size;
      const { width, height } = picture();
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.clearRect(0, 0, canvas.node.width, canvas.node.height);
      context.putImageData(image, Math.round(MARGIN.left * ratio), 0);
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.font = "12px ui-monospace, monospace";
      context.fillStyle = Theme.colour("muted");
      context.strokeStyle = Theme.colour("line");
      context.textBaseline = "top";
      context.textAlign = "right";
      // The addresses at which mapped stretches begin, as many as fit.
      let next = 0;
      const first = Math.max(0, fold.below(view.low));
      for (let i = first; i < fold.heights.length - 1; i += 1) {
        const y = yOf(Math.max(fold.heights[i], view.low));
        if (y > height - 14) break;
        if (y < next || !fold.isMapped[i]) continue;
        const page = fold.heights[i] < view.low ? Math.floor(fold.page(view.low)) : fold.bounds[i];
        context.fillText(Dom.address(page), MARGIN.left - 8, y);
        context.fillRect(MARGIN.left - 5, y, 5, 1);
        next = y + 18;
      }
      context.font = "12px system-ui, sans-serif";
      context.textAlign = "center";
      const step = roundStep((view.to - view.from) / Math.max(1, width / 90));
      for (let ns = Math.ceil(view.from / step) * step; ns <= view.to; ns += step) {
        const x = xOf(ns);
        context.textAlign = x < MARGIN.left + 30 ? "left" : x > full - 40 ? "right" : "center";
        context.fillRect(x, height, 1, 4);
        context.fillText(Dom.time(ns), x, height + 6);
      }
      context.strokeRect(MARGIN.left - 0.5, 0.5, width, height - 1);
      if (!Data.isWhole(m, app.span)) {
        context.strokeStyle = Theme.colour("accent");
        for (const ns of [app.span.from, app.span.to]) {
          const x = Math.round(xOf(ns)) + 0.5;
          if (x >= MARGIN.left && x <= MARGIN.left + width + 1) context.strokeRect(x, 0, 0, height);
        }
      }
      const line = asked === null ? -1 : yOf(fold.height(asked + 0.5));
      if (line >= 0 && line <= height) {
        context.strokeStyle = Theme.colour("accent");
        context.setLineDash([6, 4]);
        context.strokeRect(MARGIN.left, line, width, 0);
        context.setLineDash([]);
      }
      if (cursor) {
        context.strokeStyle = Theme.colour("fg");
        const [x, y] = [xOf(cursor.ns), yOf(fold.height(cursor.page + 0.5))];
        context.strokeRect(x, 0, 0, height);
        context.strokeRect(MARGIN.left, y, width, 0);
      }
    }

    const said = (r) => {
      const more = map.areas[r] > 1 ? `, drawn as one: ${Dom.plural(map.areas[r], "area")}` : "";
      return `${Dom.range(map.start[r], map.end[r])}, ${Data.what(m, r)}, ${Dom.bytes((map.end[r] - map.start[r]) * 4096)}${more}; ${Dom.time(map.from[r])} to ${Dom.time(map.to[r])}; event ${Dom.count(map.event[r])}: ${Data.siteText(m, map.site[r])}`;
    };

    function tell(x, y) {
      const r = x < MARGIN.left || y > picture().height ? -1 : at(nsOf(x), fold.page(heightOf(y)));
      tooltip.hidden = r < 0;
      if (r < 0) return -1;
      tooltip.textContent = said(r);
      tooltip.style.left = `${Math.max(0, Math.min(x + 12, canvas.size.width - tooltip.offsetWidth - 4))}px`;
      tooltip.style.top = `${y + 16 + tooltip.offsetHeight > canvas.size.height ? Math.max(0, y - tooltip.offsetHeight - 10) : y + 16}px`;
      return r;
    }

    // Moves and zooms. The window stays inside the trace, and a page gets at most half of it.
    function zoom(factor, x, y, axis) {
      if (axis !== "time") {
        const centre = heightOf(y);
        const height = Math.max(Math.min((view.high - view.low) * factor, fold.total), fold.pageHeight(centre) * 2);
        place("low", "high", centre - ((centre - view.low) / (view.high - view.low)) * height, height, fold.total);
      }
      if (axis !== "address") {
        const centre = nsOf(x);
        const width = Math.max(Math.min((view.to - view.from) * factor, m.ns), Math.min(1000, m.ns));
        place("from", "to", centre - ((centre - view.from) / (view.to - view.from)) * width, width, m.ns);
      }
      draw();
    }
    function place(from, to, start, width, most) {
      const inside = Math.max(0, Math.min(start, most - width));
      view = { ...view, [from]: inside, [to]: inside + width };
    }
    function pan(time, address) {
      place("from", "to", view.from + time * (view.to - view.from), view.to - view.from, m.ns);
      place("low", "high", view.low + address * (view.high - view.low), view.high - view.low, fold.total);
      draw();
    }
    // All addresses, in the time of the process.
    function all() {
      const { begin_ns: from, end_ns: to } = map.spaces[space];
      view = { from, to: Math.max(from + 1, to ?? m.ns), low: 0, high: Math.max(fold.total, 1e-9) };
    }
    function home() {
      all();
      draw();
    }
    // The window shows a rectangle, with its surroundings.
    function show(r) {
      const n = which.indexOf(r);
      const height = Math.max((edges.bottoms[n] - edges.tops[n]) * 8, fold.total / 200);
      place("low", "high", (edges.tops[n] + edges.bottoms[n] - height) / 2, Math.min(height, fold.total), fold.total);
    }
    const middle = () => [MARGIN.left + picture().width / 2, picture().height / 2];
    const centre = () => (cursor ? [xOf(cursor.ns), yOf(fold.height(cursor.page))] : middle());

    function setCursor(next, isSaid = true) {
      cursor = next;
      const height = fold.height(cursor.page);
      if (height < view.low || height > view.high)
        place("low", "high", height - (view.high - view.low) / 2, view.high - view.low, fold.total);
      if (cursor.ns < view.from || cursor.ns > view.to)
        place("from", "to", cursor.ns - (view.to - view.from) / 2, view.to - view.from, m.ns);
      draw();
      const r = tell(xOf(cursor.ns), yOf(fold.height(cursor.page + 0.5)));
      if (isSaid)
        status.textContent =
          r < 0 ? `${Dom.address(cursor.page)}: nothing is mapped at ${Dom.time(cursor.ns)}` : said(r);
    }
    // Up and down: the next area at this moment. Left and right: the next change at this address.
    function step(direction, isTime) {
      const { ns, page } = cursor;
      let best = -1;
      let value = null;
      for (const r of which) {
        const isHere = isTime ? map.start[r] <= page && page < map.end[r] : map.from[r] <= ns && ns <= map.to[r];
        if (!isHere) continue;
        const at = isTime ? map.from[r] : map.start[r];
        const from = isTime ? ns : page;
        if (direction > 0 ? at > from && (best < 0 || at < value) : at < from && (best < 0 || at > value))
          [best, value] = [r, at];
      }
      if (best >= 0) setCursor(isTime ? { ns: value, page } : { ns, page: value });
    }
    function begin() {
      const [x, y] = middle();
      let page = Math.floor(fold.page(heightOf(y)));
      const ns = nsOf(x);
      if (at(ns, page) < 0) {
        const here = which
          .filter((r) => map.from[r] <= ns && ns <= map.to[r])
          .sort((a, b) => Math.abs(map.start[a] - page) - Math.abs(map.start[b] - page));
        if (here.length > 0) page = map.start[here[0]];
      }
      setCursor({ ns, page });
    }

    function key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey || !fold) return;
      const arrows = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
      const arrow = arrows[event.key];
      const [x, y] = centre();
      if (arrow && event.shiftKey) pan(arrow[0] * 0.2, arrow[1] * 0.2);
      else if (arrow && !cursor) begin();
      else if (arrow) step(arrow[0] + arrow[1], arrow[0] !== 0);
      else if (event.key === "+" || event.key === "=") zoom(0.5, x, y, "address");
      else if (event.key === "-") zoom(2, x, y, "address");
      else if (event.key === "t") zoom(0.5, x, y, "time");
      else if (event.key === "T") zoom(2, x, y, "time");
      else if (event.key === "PageUp") pan(0, -0.9);
      else if (event.key === "PageDown") pan(0, 0.9);
      else if (event.key === "Home") home();
      else if (event.key === "Escape" && cursor) {
        cursor = null;
        tooltip.hidden = true;
        overlay();
      } else if (event.key === "Enter" && cursor) app.set({ at: cursor.page });
      else return;
      event.preventDefault();
    }

    // A drag moves the window. A click without a move asks for the history.
    let drag = null;
    const listeners = {
      keydown: key,
      blur: () => (tooltip.hidden = true),
      pointerdown: (event) => {
        drag = { x: event.offsetX, y: event.offsetY, view, hasMoved: false };
        canvas.node.setPointerCapture(event.pointerId);
      },
      pointermove: (event) => {
        if (!fold) return;
        if (!drag) return void tell(event.offsetX, event.offsetY);
        const [dx, dy] = [event.offsetX - drag.x, event.offsetY - drag.y];
        if (Math.hypot(dx, dy) > 4) drag.hasMoved = true;
        if (!drag.hasMoved) return;
        view = drag.view;
        pan(-dx / picture().width, -dy / picture().height);
      },
      pointerup: (event) => {
        if (drag && !drag.hasMoved && event.offsetX >= MARGIN.left && event.offsetY < picture().height) {
          const page = Math.floor(fold.page(heightOf(event.offsetY)));
          setCursor({ ns: nsOf(event.offsetX), page }, false);
          app.set({ at: page });
        }
        drag = null;
      },
      pointercancel: () => (drag = null),
      pointerleave: () => (tooltip.hidden = true),
      // The wheel scrolls the page unless the picture has the focus.
      wheel: (event) => {
        if (document.activeElement !== canvas.node && !event.ctrlKey) return;
        event.preventDefault();
        zoom(event.deltaY > 0 ? 1.25 : 0.8, event.offsetX, event.offsetY, event.shiftKey ? "time" : "address");
      },
    };
    for (const [name, listener] of Object.entries(listeners))
      canvas.node.addEventListener(name, listener, name === "wheel" ? { passive: false } : undefined);

    const names = map.spaces.map((one, i) => ({
      value: String(i),
      text: `${one.pid} ${Dom.clip(one.program, 60)} (from ${Dom.time(one.begin_ns)})`,
    }));
    const process = Dom.choice("Process", names, "0", (value) => app.set({ space: Number(value), at: null }));
    const scales = Dom.choice(
      "Heights",
      [
        { value: "even", text: "every area visible" },
        { value: "size", text: "in proportion to size" },
      ],
      scale,
      (value) => {
        scale = value;
        if (fold) {
          refold();
          draw();
        }
      },
    );
    const inMiddle = (factor, axis) => () => fold && zoom(factor, ...centre(), axis);
    const tools = el(
      "div",
      { class: "tools", role: "group", "aria-label": "Zoom" },
      Dom.button("Addresses +", inMiddle(0.5, "address")),
      Dom.button("Addresses −", inMiddle(2, "address")),
      Dom.button("Time +", inMiddle(0.5, "time")),
      Dom.button("Time −", inMiddle(2, "time")),
      Dom.button("All", () => fold && home()),
      Dom.button("Select this time", () => app.select(view.from, view.to)),
    );
    const history = AddressHistory.create(m, app, () => which);
    const drawn = map.exact
      ? "Every change is drawn."
      : `What lies closer than ${Dom.time(map.ns)} and ${Dom.bytes(map.pages * 4096)} is drawn as one rectangle; its tooltip tells how many areas it stands for.`;
    const table = Dom.behind("The areas in this window as a table", () => {
      const rows = [...which.keys()].filter(
        (n) =>
          map.from[which[n]] <= view.to &&
          map.to[which[n]] >= view.from &&
          edges.tops[n] < view.high &&
          edges.bottoms[n] > view.low,
      );
      return Dom.table(
        "Areas in the window",
        AddressHistory.columns(m, app),
        rows.map((n) => which[n]),
      );
    });
    const content =
      map.length === 0
        ? [el("p", { class: "empty", text: "The trace has no areas to draw." })]
        : [
            el("div", { class: "controls" }, process.box, scales.box, tools),
            el("p", {
              class: "note",
              text: `Low addresses are at the top, addresses that were never mapped are folded. ${drawn} Click for the history of an address; the wheel zooms once the picture is chosen, or with Ctrl.`,
            }),
            canvas.box,
            status,
            history.box,
            table.box,
          ];

    return {
      content,
      update(state, changed) {
        if (map.length === 0) return;
        marked = app.places();
        asked = state.at;
        const wanted = state.space >= 0 && state.space < map.spaces.length ? state.space : Math.max(0, mostOf(map));
        const isNew = wanted !== space;
        if (isNew) load(wanted);
        process.select.value = String(space);
        if (changed.has("span") && Data.isWhole(m, app.span)) all();
        else if (changed.has("span")) view = { ...view, from: app.span.from, to: app.span.to };
        if (changed.has("at") && state.at !== null) {
          const here = which.filter((r) => map.start[r] <= state.at && state.at < map.end[r]);
          const height = fold.height(state.at);
          if (here.length > 0 && (height < view.low || height > view.high)) show(here[here.length - 1]);
        }
        if (isNew || ["at", "span", "sites", "theme"].some((name) => changed.has(name))) draw();
        if (isNew || changed.has("at")) history.update(state.at);
        table.update();
      },
    };
  }

  // 1, 2 or 5 times a power of ten, at least `least`.
  function roundStep(least) {
    const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
    return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= least) ?? power;
  }

  // The space with the most rectangles.
  function mostOf(map) {
    const counts = new Float64Array(map.spaces.length);
    for (let r = 0; r < map.length; r += 1) counts[map.space[r]] += 1;
    return counts.reduce((best, n, i) => (n > counts[best] ? i : best), 0);
  }

  return { create };
})();
