// The page: its panels, and the reader's choices. The fragment of the address holds the choices, so
// a link restores a view. This is the last script, and knows all others. A panel has `content` and
// `update(state, changed)`. `changed` has the names of the choices that changed, and `span` for
// `from` or `to`.
(() => {
  "use strict";
  const { el } = Dom;

  const data = JSON.parse(document.getElementById("data").textContent);
  const models = data.traces.map(Data.model);

  // Of two traces the later one is shown first, because it is the one that grew.
  const NOTHING = {
    trace: models.length - 1,
    panel: null,
    from: null,
    to: null,
    weight: null,
    sites: [],
    series: 0,
    space: -1,
    at: null,
    reason: null,
    theme: "auto",
  };
  const NUMBERS = ["trace", "from", "to", "series", "space", "at"];
  const TEXTS = {
    panel: /^[a-z]{1,20}$/,
    weight: /^[a-z]{1,20}$/,
    reason: /^[a-z:,-]{1,400}$/,
    theme: /^(auto|light|dark)$/,
  };

  let state = { ...NOTHING };
  let m = models[NOTHING.trace];
  let panels = [];

  // The choices of a fragment. Unknown ones are left out.
  function parse(fragment) {
    const next = { ...NOTHING };
    for (const [name, text] of new URLSearchParams(fragment.replace(/^#/, ""))) {
      if (NUMBERS.includes(name) && /^[0-9]{1,17}(\.[0-9]{1,9})?$/.test(text)) next[name] = Number(text);
      else if (TEXTS[name]?.test(text)) next[name] = text;
      else if (name === "sites")
        next.sites = text
          .split(",")
          .filter((one) => /^[0-9]{1,9}$/.test(one))
          .map(Number);
    }
    if (!(next.trace < models.length)) next.trace = NOTHING.trace;
    return next;
  }

  function fragment(view) {
    const words = new URLSearchParams();
    for (const [name, value] of Object.entries(view)) {
      if (value === null || value === undefined || value === NOTHING[name] || (name === "sites" && value.length === 0))
        continue;
      words.set(name, name === "sites" ? value.slice(0, 20).join(",") : String(value));
    }
    return `#${words.toString().replaceAll("%2C", ",")}`;
  }

  const app = {
    get span() {
      return state.from === null || state.to === null ? { from: 0, to: m.ns } : Data.snap(m, state.from, state.to);
    },
    places: () => new Set(state.sites),
    // The default weight. In a span it is the retained areas.
    weight: () => state.weight ?? (Data.isWhole(m, app.span) ? "areas" : "retained"),
    set(changes) {
      apply({ ...state, ...changes });
      if (changes.panel) visit(changes.panel);
    },
    select(from, to) {
      const span = Data.snap(m, from, to);
      app.set(Data.isWhole(m, span) ? { from: null, to: null } : span);
    },
    link: (view) => fragment({ ...NOTHING, trace: models.indexOf(m), theme: state.theme, ...view }),
    // Highlights a place after a click, and shows it in the panel "Who".
    siteLink(site, write = Data.siteText) {
      if (!(site >= 0 && site < m.sites.length)) return el("span", { class: "note", text: "not known" });
      const text = write(m, site);
      return el("button", {
        type: "button",
        class: "link",
        text,
        on: { click: (event) => app.set({ sites: [site], ...(event.target.closest("#who") ? {} : { panel: "who" }) }) },
      });
    },
  };

  // Changes wait for the next frame, so that repeated keys do not queue. The frame draws the panels
  // in the window. The others are drawn right after it.
  let isAsked = false;
  function tell(names) {
    for (const panel of panels) names.forEach((name) => panel.waiting.add(name));
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(flush);
  }
  function apply(next) {
    const changed = Object.keys(NOTHING).filter((name) => String(next[name]) !== String(state[name]));
    const isOther = next.trace !== state.trace;
    state = next;
    if (isOther) build();
    if (changed.length === 0) return;
    if (changed.includes("theme")) Theme.choose(state.theme);
    tell(changed.map((name) => (name === "from" || name === "to" ? "span" : name)));
  }
  function draw(isDue) {
    for (const panel of panels) {
      if (panel.waiting.size === 0 || !isDue(panel)) continue;
      const changed = panel.waiting;
      panel.waiting = new Set();
      panel.update(state, changed);
    }
  }
  const drawAll = () => draw(() => true);
  function isSeen({ section }) {
    const box = section.getBoundingClientRect();
    return box.bottom > 0 && box.top < window.innerHeight;
  }
  function flush() {
    isAsked = false;
    themes.select.value = state.theme;
    showSpan();
    draw(isSeen);
    setTimeout(drawAll, 0);
    remember();
  }
  let timer = 0;
  function remember() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (fragment(state) !== (location.hash || "#")) history.replaceState(null, "", fragment(state));
    }, 200);
  }

  function visit(name) {
    const section = document.getElementById(name);
    if (!section) return;
    section.scrollIntoView({ block: "start" });
    section.querySelector("h2").focus({ preventScroll: true });
  }

  // The span: two numbers of milliseconds. Every panel follows it.
  const milliseconds = (name) =>
    el("input", {
      type: "number",
      min: "0",
      step: "any",
      class: "number",
      "aria-label": `Span ${name}, in milliseconds`,
    });
  const [from, to] = [milliseconds("from"), milliseconds("to")];
  const typed = () => app.select(Number(from.value) * 1e6, to.value === "" ? m.ns : Number(to.value) * 1e6);
  for (const field of [from, to]) field.addEventListener("change", typed);
  const whole = Dom.button("All of the time", () => app.select(0, m.ns));
  // Whole microseconds inside the span if its cells are longer.
  function showSpan() {
    const { span } = app;
    from.value = String(m.lives.bin > 2000 ? Math.ceil(span.from / 1e3) / 1e3 : span.from / 1e6);
    to.value = String(m.lives.bin > 2000 ? Math.floor(span.to / 1e3) / 1e3 : span.to / 1e6);
    whole.disabled = Data.isWhole(m, span);
    spanBar.classList.toggle("chosen", !whole.disabled);
  }
  const spanBar = el(
    "div",
    { class: "span", role: "group", "aria-label": "Span of time" },
    el("span", { text: "Span" }),
    from,
    "to",
    to,
    "ms",
    whole,
  );

  const themes = Dom.choice(
    "Theme",
    ["auto", "light", "dark"].map((theme) => ({ value: theme, text: theme })),
    "auto",
    (theme) => app.set({ theme }),
  );
  const traces = Dom.choice(
    "Trace",
    models.map((one, i) => ({
      value: String(i),
      text: `${["before", "after"][i] ?? i}: ${Dom.clip(one.trace.file, 50)}`,
    })),
    "0",
    (trace) => app.set({ ...NOTHING, theme: state.theme, trace: Number(trace) }),
  );

  const PANELS = [
    ["cause", "What happened", () => Verdicts.create(m, app)],
    ["compare", "Two traces", () => Compare.create(models, data.diff, app), () => models.length === 2],
    ["time", "Over time", () => Timeline.create(m, app)],
    ["map", "Address space", () => AddressMap.create(m, app)],
    ["who", "Who", () => Who.create(m, app)],
    ["apart", "Why not one", () => Boundaries.create(m, app)],
    ["slow", "Calls that stall", () => Slow.create(m, app)],
    ["processes", "Processes", () => Processes.create(m, app)],
  ].filter(([, , , isThere]) => !isThere || isThere());

  const heading = el("h1", {});
  const subtitle = el("p", { class: "note" });
  const notices = el("div", {});
  const main = el("main", {});
  const skip = (name, text) =>
    el("a", {
      class: "skip",
      href: `#panel=${name}`,
      text,
      on: {
        click: (event) => {
          event.preventDefault();
          app.set({ panel: name });
        },
      },
    });
  const panelLink = ([name, title]) =>
    el("a", {
      href: `#panel=${name}`,
      text: title,
      on: {
        click: (event) => {
          event.preventDefault();
          app.set({ panel: name });
        },
      },
    });
  document
    .getElementById("page")
    .append(
      skip("cause", "Skip to what happened"),
      skip("who", "Skip to who did it"),
      el(
        "header",
        {},
        el("div", {}, heading, subtitle),
        el("div", { class: "controls" }, models.length > 1 ? traces.box : null, themes.box),
      ),
      notices,
      el("div", { class: "bar" }, el("nav", { "aria-label": "Panels" }, ...PANELS.map(panelLink)), spanBar),
      main,
      el("footer", { class: "note" }, `samara ${data.version ?? ""}. This file needs no network. `),
    );

  // All panels of the trace that is chosen.
  function build() {
    m = models[state.trace];
    const { trace } = m;
    heading.textContent = trace.program;
    const title = trace.title.startsWith(trace.program) ? trace.title.slice(trace.program.length).trim() : trace.title;
    subtitle.textContent = `${title} · ${trace.file}`;
    traces.select.value = String(state.trace);
    notices.replaceChildren(
      ...[trace.damage, trace.lost].filter(Boolean).map((text) => el("p", { class: "alert", role: "note", text })),
    );
    panels = [];
    main.replaceChildren(
      ...PANELS.map(([name, title, create]) => {
        const panel = create();
        const section = el(
          "section",
          { id: name, "aria-labelledby": `${name}-title` },
          el("h2", { id: `${name}-title`, tabindex: "-1", text: title }),
          ...panel.content.filter((node) => node !== null),
        );
        panels.push({ ...panel, section, waiting: new Set([...Object.keys(NOTHING), "span"]) });
        return section;
      }),
    );
  }

  // Printing does not wait for a frame.
  Theme.onChange((inPrint) => {
    tell(["theme"]);
    if (inPrint) drawAll();
  });
  window.addEventListener("hashchange", () => {
    const next = parse(location.hash);
    apply(next);
    if (next.panel) visit(next.panel);
  });

  state = parse(location.hash);
  Theme.choose(state.theme);
  build();
  flush();
  if (state.panel) visit(state.panel);
  setTimeout(() => performance.mark("samara-drawn"), 0);
})();
