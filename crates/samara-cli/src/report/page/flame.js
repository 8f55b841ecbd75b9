// A flame graph with the roots at the top. A function is below its caller; the calls are below the
// innermost functions. Boxes narrower than a pixel are not drawn. Knows the call tree and a weight
// of each place; not what the weight means.
const Flame = (() => {
  "use strict";
  const ROW = 20;
  // The most rows in view. A picture with more of them scrolls.
  const MOST_ROWS = 200;

  // The tree with the places as its leaves: node `tree.length + s` is place `s`. Children of a node
  // are next to each other in `list`, from `start[node]` on. The roots' parent is number `count`.
  function index(m) {
    const count = m.tree.length + m.sites.length;
    const parent = new Int32Array(count);
    for (let node = 0; node < count; node += 1) {
      const above = node < m.tree.length ? m.tree.parent[node] : m.sites.node[node - m.tree.length];
      parent[node] = above >= 0 && above < m.tree.length ? above : count;
    }
    const start = new Int32Array(count + 2);
    parent.forEach((above) => (start[above + 1] += 1));
    for (let i = 1; i < start.length; i += 1) start[i] += start[i - 1];
    const next = start.slice();
    const list = new Int32Array(count);
    parent.forEach((above, node) => (list[next[above]++] = node));
    return { count, parent, start, list };
  }

  function create(m, app, onSelect) {
    const tree = index(m);
    const all = tree.count;
    let totals = new Float64Array(all + 1);
    let weight = m.weights[0];
    let root = all;
    let marked = new Uint8Array(all + 1);
    let boxes = [];
    let focus = -1;

    const status = Dom.el("p", { class: "readout", role: "status", "aria-live": "polite" });
    const canvas = Dom.canvas(
      ROW * 3,
      {
        tabindex: "0",
        role: "application",
        "aria-label":
          "Flame graph. Down goes to the largest function called, up to the caller, left and right to its neighbours; enter zooms in or chooses a call; escape zooms out.",
      },
      () => draw(),
    );
    const context = canvas.node.getContext("2d");

    const name = (node) => {
      if (node === all) return "all";
      if (node >= m.tree.length)
        return m.text(m.sites.call[node - m.tree.length]) || m.text(m.sites.text[node - m.tree.length]);
      return `${m.tree.guessed[node] ? "? " : ""}${m.text(m.tree.name[node])}`;
    };
    const place = (node) =>
      node < m.tree.length ? m.text(m.tree.place[node]) : node < all ? m.text(m.sites.text[node - m.tree.length]) : "";
    const part = (node) => (totals[all] > 0 ? ` (${((totals[node] / totals[all]) * 100).toFixed(1)} %)` : "");
    const said = (node) =>
      `${name(node)}${place(node) ? `, ${place(node)}` : ""}: ${Data.written(weight, totals[node])} ${weight.unit === "bytes" || weight.unit === "ns" ? weight.name : weight.unit}${part(node)}`;

    function sum(values) {
      totals = new Float64Array(all + 1);
      for (let s = 0; s < m.sites.length; s += 1) totals[m.tree.length + s] = values[s];
      for (let node = all - 1; node >= 0; node -= 1) totals[tree.parent[node]] += totals[node];
    }

    const children = (node) =>
      Array.from(tree.list.subarray(tree.start[node], tree.start[node + 1]))
        .filter((child) => totals[child] > 0)
        .sort((a, b) => totals[b] - totals[a]);

    // The visible boxes: node, row, left and width.
    function lay() {
      boxes = [];
      const above = [];
      for (let node = root; node !== all; node = tree.parent[node]) above.unshift(node);
      const path = [all, ...above];
      const { width } = canvas.size;
      path.forEach((node, row) => boxes.push({ node, row, left: 0, width }));
      const open = [boxes[boxes.length - 1]];
      while (open.length > 0) {
        const box = open.pop();
        if (box.row + 1 >= MOST_ROWS) continue;
        let left = box.left;
        for (const child of children(box.node)) {
          const wide = totals[box.node] > 0 ? (totals[child] / totals[box.node]) * box.width : 0;
          if (wide < 1) break;
          const next = { node: child, row: box.row + 1, left, width: wide };
          boxes.push(next);
          open.push(next);
          left += wide;
        }
      }
    }

    function draw() {
      lay();
      const rows = boxes.reduce((most, box) => Math.max(most, box.row + 1), 3);
      if (canvas.size.height !== rows * ROW) {
        canvas.size.height = rows * ROW;
        return canvas.resize();
      }
      const { ratio, width, height } = canvas.size;
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, width, height);
      // All letters have one width, so texts need not be measured.
      context.font = "12px ui-monospace, Menlo, Consolas, monospace";
      context.textBaseline = "middle";
      const letter = context.measureText("m").width;
      const colours = Object.fromEntries(
        ["flame-0", "flame-1", "flame-call", "flame-above", "flame-marked", "fg", "accent"].map((c) => [
          c,
          Theme.colour(c),
        ]),
      );
      const above = new Set(
        boxes.filter((box) => box.width === width && box.row < (root === all ? 1 : depth(root))).map((box) => box.node),
      );
      for (const box of boxes) {
        const isCall = box.node >= m.tree.length && box.node < all;
        const isMarked = marked[box.node] === 1;
        context.fillStyle = isMarked
          ? colours["flame-marked"]
          : above.has(box.node)
            ? colours["flame-above"]
            : isCall
              ? colours["flame-call"]
              : colours[`flame-${box.node % 2}`];
        context.fillRect(box.left, box.row * ROW, Math.max(1, box.width - 1), ROW - 1);
        context.fillStyle = colours.fg;
        // A bar too: colour alone is not enough.
        if (isMarked) context.fillRect(box.left, box.row * ROW + ROW - 4, Math.max(1, box.width - 1), 3);
        if (box.width > 24) {
          context.fillText(
            Dom.clip(name(box.node), Math.max(1, Math.floor((box.width - 10) / letter))),
            box.left + 5,
            box.row * ROW + ROW / 2,
          );
        }
        if (box.node === focus) {
          context.strokeStyle = colours.accent;
          context.lineWidth = 3;
          context.strokeRect(box.left + 1.5, box.row * ROW + 1.5, Math.max(2, box.width - 4), ROW - 4);
        }
      }
      return undefined;
    }
    const depth = (node) => (node === all ? 0 : depth(tree.parent[node]) + 1);

    function go(node) {
      focus = node;
      status.textContent = said(node);
      draw();
      const box = boxes.find((one) => one.node === node);
      const scroll = canvas.box.parentElement;
      if (
        box &&
        scroll &&
        (box.row * ROW < scroll.scrollTop || (box.row + 1) * ROW > scroll.scrollTop + scroll.clientHeight)
      )
        scroll.scrollTop = box.row * ROW - scroll.clientHeight / 2;
    }
    // Zooms to a function, or chooses a call.
    function enter(node) {
      if (node < 0) return;
      if (node >= m.tree.length && node < all) return onSelect(node - m.tree.length);
      root = node;
      go(node);
    }
    function key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const here = focus < 0 ? root : focus;
      const siblings = here === all ? [all] : children(tree.parent[here]);
      const at = siblings.indexOf(here);
      if (event.key === "ArrowDown") go(focus < 0 ? root : (children(here)[0] ?? here));
      else if (event.key === "ArrowUp") go(here === all ? all : tree.parent[here]);
      else if (event.key === "ArrowRight") go(siblings[Math.min(at + 1, siblings.length - 1)]);
      else if (event.key === "ArrowLeft") go(siblings[Math.max(at - 1, 0)]);
      else if (event.key === "Enter") enter(here);
      else if (event.key === "Escape" && root !== all) enter(tree.parent[root]);
      else return;
      event.preventDefault();
    }
    const under = (event) =>
      boxes.find(
        (box) =>
          Math.floor(event.offsetY / ROW) === box.row &&
          event.offsetX >= box.left &&
          event.offsetX < box.left + box.width,
      )?.node ?? -1;
    canvas.node.addEventListener("keydown", key);
    canvas.node.addEventListener("click", (event) => enter(under(event)));
    canvas.node.addEventListener("pointermove", (event) => {
      const node = under(event);
      canvas.node.classList.toggle("hand", node >= 0);
      if (node >= 0) status.textContent = said(node);
    });

    return {
      box: Dom.el("div", {}, Dom.el("div", { class: "flame", tabindex: "-1" }, canvas.box), status),
      // The weight of each place, its name, and the highlighted places.
      update(values, what, places) {
        weight = what;
        sum(values);
        marked = new Uint8Array(all + 1);
        for (const site of places) {
          for (let node = m.tree.length + site; site < m.sites.length && node !== all; node = tree.parent[node])
            marked[node] = 1;
        }
        if (root !== all && totals[root] === 0) root = all;
        if (focus >= 0 && totals[focus] === 0) focus = -1;
        if (canvas.size.width > 1) draw();
        status.textContent = focus >= 0 ? said(focus) : totals[all] > 0 ? said(all) : `No place has ${weight.help}.`;
      },
      // Nodes with their totals, the largest first: the rows of the table below the picture.
      rows: () =>
        Array.from({ length: m.tree.length }, (_, node) => node)
          .filter((node) => totals[node] > 0)
          .sort((a, b) => totals[b] - totals[a]),
      name,
      place,
      total: (node) => totals[node],
    };
  }

  return { create };
})();
