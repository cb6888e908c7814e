"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { texts, columns, rank_sets: rankSets, groups, links } = data;
  const total = columns.name.length;
  const CHUNK = matchMedia("(max-width: 44rem)").matches ? 30 : 120;
  const FEW = 3;
  const WORD = { mapped: "✓ mapped", partial: "◐ in part", unmapped: "✗ unmapped", none: "no tensor" };
  const KIND = [
    { whole: "held by", piece: "in pieces by", factor: "multiplied by", part: "in parts by" },
    { whole: "all of", piece: "a piece of", factor: "a multiple of", part: "a part of a reduction of" },
  ];
  const byId = (id) => document.getElementById(id);
  const text = (column, row) => texts[columns[column][row]];

  // ---- elements ---------------------------------------------------------------------------------
  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children.filter((child) => child !== null));
    return made;
  }
  const code = (content) => element("code", {}, content);
  const sub = (content) => (content ? element("span", { class: "sub" }, content) : null);

  function spans(ranks) {
    const found = [];
    for (const rank of ranks) {
      const last = found[found.length - 1];
      if (last && rank === last[1] + 1) last[1] = rank;
      else found.push([rank, rank]);
    }
    return found.map(([lo, hi]) => (lo === hi ? `${lo}` : `${lo}-${hi}`)).join(", ");
  }

  function where(row) {
    if (!columns.side[row]) return "sequential";
    const ranks = rankSets[columns.ranks[row]];
    return `rank${ranks.length > 1 ? "s" : ""} ${spans(ranks)}`;
  }

  function linkList(row) {
    const group = columns.group[row];
    const found = group < 0 ? [] : links[group];
    const items = found.map(([other, kind]) =>
      element("li", {}, `${KIND[columns.side[row]][kind]} `, code(groups[other])));
    if (items.length <= FEW + 1) return element("ul", { class: "link-list" }, ...items);
    const rest = element("details", {}, element("summary", {}, `${items.length - FEW} more`),
      element("ul", {}, ...items.slice(FEW)));
    return element("ul", { class: "link-list" }, ...items.slice(0, FEW), element("li", {}, rest));
  }

  function tableRow(row) {
    const status = text("status", row);
    const target = text("target", row);
    const source = text("source", row);
    const made = element("tr", { "data-group": columns.group[row] },
      element("th", { scope: "row" }, code(text("name", row)), sub(where(row))),
      element("td", {}, target === text("name", row) ? "input" : code(target), sub(text("shape", row))),
      element("td", {}, element("span", { class: `badge status-${status}` }, WORD[status])),
      element("td", {}, linkList(row)),
      element("td", {}, sub(source), sub(text("module", row))));
    if (lit.has(columns.group[row])) made.classList.add("lit");
    return made;
  }

  // ---- the table: what matches, a chunk at a time -----------------------------------------------
  const body = document.querySelector("#rows tbody");
  const more = byId("more");
  const fields = ["search", "side", "rank", "status", "module"].map(byId);
  const [search, side, rank, status, module] = fields;
  const hay = new Array(total);
  let lit = new Set();
  let matching = [];
  let shown = 0;

  function haystack(row) {
    if (hay[row] === undefined) {
      const ranks = columns.side[row] ? rankSets[columns.ranks[row]] : [];
      const names = ranks.map((r) => `r${r}.${text("name", row)}`);
      hay[row] = [text("name", row), ...names, text("target", row), text("module", row),
        text("source", row)].join("\n").toLowerCase();
    }
    return hay[row];
  }

  function inModule(row) {
    const own = text("module", row);
    if (module.value === "(unknown)") return own === "";
    return own === module.value || own.startsWith(`${module.value}.`);
  }

  function matches(row, words) {
    return (side.value === "" || columns.side[row] === Number(side.value))
      && (rank.value === "" || (columns.side[row] === 1 && rankSets[columns.ranks[row]].includes(Number(rank.value))))
      && (status.value === "" || text("status", row) === status.value)
      && (module.value === "" || inModule(row))
      && words.every((word) => haystack(row).includes(word));
  }

  function extend() {
    const next = matching.slice(shown, shown + CHUNK);
    body.append(...next.map(tableRow));
    shown += next.length;
    more.hidden = shown >= matching.length;
    more.textContent = `Show more (${(matching.length - shown).toLocaleString("en")} left)`;
  }

  function refresh() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    matching = [];
    for (let row = 0; row < total; row += 1) if (matches(row, words)) matching.push(row);
    const exact = (row) => words.length === 1 && text("name", row).toLowerCase() === words[0];
    if (words.length) matching = [...matching.filter(exact), ...matching.filter((row) => !exact(row))];
    body.replaceChildren();
    shown = 0;
    extend();
    const of = matching.length === total ? "" : ` of ${total.toLocaleString("en")}`;
    byId("count").textContent = `${matching.length.toLocaleString("en")}${of} operators`
      + (matching.length ? "" : "; clear the filters to see all");
  }

  function option(select, value, label) {
    select.append(element("option", { value }, label));
  }
  const ranks = [...new Set(rankSets.flat())].sort((a, b) => a - b);
  for (const value of ranks) option(rank, value, `${value}`);
  const modules = new Set();
  for (const number of new Set(columns.module)) {
    const path = texts[number];
    if (path === "") modules.add("(unknown)");
    else path.split(".").forEach((_, index, parts) => modules.add(parts.slice(0, index + 1).join(".")));
  }
  const inOrder = new Intl.Collator("en", { numeric: true }).compare;
  for (const path of [...modules].sort(inOrder)) option(module, path, path);

  for (const field of fields) field.addEventListener("input", refresh);
  const form = document.querySelector(".filters");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(refresh));
  const box = document.querySelector(".rows");
  box.addEventListener("scroll", () => {
    const near = box.scrollHeight - box.scrollTop - box.clientHeight < 400;
    if (near && box.clientHeight < box.scrollHeight && shown < matching.length) extend();
  }, { passive: true });
  more.addEventListener("click", () => {
    const first = shown;
    extend();
    const row = body.rows[first];
    if (row) { row.tabIndex = -1; row.focus({ preventScroll: true }); }
  });

  document.querySelectorAll(".modules a").forEach((box) => box.addEventListener("click", () => {
    form.reset();
    const path = box.dataset.module;
    setTimeout(() => { module.value = path; refresh(); module.focus({ preventScroll: true }); });
  }));

  // ---- neighbourhoods: what maps to what --------------------------------------------------------
  function light(svg, node) {
    const group = Number(node.dataset.group);
    const ends = (line) => line.dataset.ends.split(" ").map(Number);
    lit = new Set([group]);
    svg.querySelectorAll(".link, .need").forEach((line) => {
      const on = ends(line).includes(group);
      line.classList.toggle("lit", on);
      if (on && line.classList.contains("link")) ends(line).forEach((end) => lit.add(end));
    });
    svg.classList.add("lighting");
    show(svg);
    const told = svg.closest("figure").querySelector(".told");
    told.firstElementChild.textContent = node.getAttribute("aria-label");
    told.lastElementChild.hidden = false;
    told.lastElementChild.onclick = () => list(node);
  }

  function dark(svg) {
    const kept = svg.querySelector(".node:focus");
    if (kept) { light(svg, kept); return; }
    lit = new Set();
    svg.classList.remove("lighting");
    svg.querySelectorAll(".lit").forEach((item) => item.classList.remove("lit"));
    show(svg);
  }

  function show(svg) {
    svg.querySelectorAll(".node").forEach((node) => node.classList.toggle("lit", lit.has(Number(node.dataset.group))));
    for (const row of body.rows) row.classList.toggle("lit", lit.has(Number(row.dataset.group)));
  }

  function list(node) {
    form.reset();
    setTimeout(() => {
      search.value = node.dataset.node;
      side.value = node.dataset.side;
      refresh();
      search.focus({ preventScroll: true });
      byId("operators").scrollIntoView();
    });
  }

  const STEP = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
  function beside(nodes, from, [dx, dy]) {
    const at = (node) => node.getBoundingClientRect();
    const here = at(from);
    let best = null;
    for (const node of nodes) {
      const [x, y] = [at(node).x - here.x, at(node).y - here.y];
      const ahead = x * dx + y * dy;
      const aside = Math.abs(x * dy) + Math.abs(y * dx);
      const cost = ahead + (dx ? 30 : 1) * aside; // along a row first
      if (node !== from && ahead > 5 && (best === null || cost < best.cost)) best = { node, cost };
    }
    return best && best.node;
  }

  document.querySelectorAll(".neighbourhood").forEach((svg) => {
    const nodes = [...svg.querySelectorAll(".node")];
    svg.style.minWidth = `${0.78 * svg.viewBox.baseVal.width}px`;
    const first = svg.querySelector(".node.broken") || svg.querySelector(".node.named") || nodes[0];
    const enter = (node) => { nodes.forEach((n) => n.setAttribute("tabindex", n === node ? "0" : "-1")); };
    if (first) {
      enter(first);
      const [at, view] = [first.getBoundingClientRect(), svg.parentElement];
      view.scrollLeft = at.x + at.width / 2 - view.getBoundingClientRect().x - view.clientWidth / 2;
    }
    for (const node of nodes) {
      node.addEventListener("pointerenter", () => light(svg, node));
      node.addEventListener("pointerleave", () => dark(svg));
      node.addEventListener("focus", () => { enter(node); light(svg, node); });
      node.addEventListener("blur", () => dark(svg));
      node.addEventListener("dblclick", () => list(node));
      node.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); list(node); }
        const step = STEP[event.key];
        const next = step && beside(nodes, node, step);
        if (step) event.preventDefault();
        if (next) next.focus();
      });
    }
  });

  // ---- keys -------------------------------------------------------------------------------------
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      search.focus();
      byId("operators").scrollIntoView();
    }
    if (event.key === "Escape" && event.target === search) { search.value = ""; refresh(); }
  });

  refresh();
})();
