"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { texts, columns, groups, glyphs } = data;
  const total = columns.item.length;
  const ROWS = 120; // of a matrix at a time
  const TILES = 1200;
  const FEW = 400; // tiles that have room for their names
  const byId = (id) => document.getElementById(id);
  const text = (column, item) => texts[columns[column][item]];
  const counted = (count) => count.toLocaleString("en");

  // ---- elements ---------------------------------------------------------------------------------
  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children.filter((child) => child !== null));
    return made;
  }

  /** What stands between backticks as code. */
  function said(words) {
    return words.split("`").map((part, at) => (at % 2 ? element("code", {}, part) : part));
  }

  function cell(item, name) {
    const status = text("status", item);
    const wrong = columns.unexpected[item] ? ", not as expected" : "";
    const label = `${text("item", item)}: ${status}${wrong}`;
    const made = element("button", {
      type: "button", tabindex: "-1", "data-item": item, "aria-label": label, title: label,
      class: `cell s-${status}${wrong && " wrong"}`,
    }, glyphs[status], name ? element("span", {}, name) : null);
    if (item === current) mark(made);
    return made;
  }

  // ---- filters ----------------------------------------------------------------------------------
  const fields = ["search", "status", "outcome", "cause"].map(byId);
  const [search, status, outcome, cause] = fields;
  const hay = new Array(total);
  let on = new Uint8Array(total).fill(1);
  let current = -1;

  function haystack(item) {
    if (hay[item] === undefined) {
      hay[item] = ["item", "program", "status", "code", "why", "seq_source", "dist_source"]
        .map((column) => text(column, item)).join("\n").toLowerCase();
    }
    return hay[item];
  }

  function matches(item, words) {
    return (status.value === "" || text("status", item) === status.value)
      && (outcome.value === "" || (text("status", item) !== "pending" && columns.unexpected[item] === Number(outcome.value)))
      && (cause.value === "" || data.cause[item] === Number(cause.value))
      && words.every((word) => haystack(item).includes(word));
  }

  function refresh() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (let item = 0; item < total; item += 1) {
      on[item] = matches(item, words) ? 1 : 0;
      found += on[item];
    }
    const of = found === total ? "" : ` of ${counted(total)}`;
    byId("count").textContent = `${counted(found)}${of} items${found ? "." : "; clear the filters to see all."}`;
    for (const press of document.querySelectorAll("[data-status]")) press.setAttribute("aria-pressed", press.dataset.status === status.value);
    for (const press of document.querySelectorAll("[data-cause]")) press.setAttribute("aria-pressed", press.dataset.cause === cause.value);
    boards.forEach((board) => board.refresh());
    enter(document.querySelector(`.cell[data-item="${current}"]:not(.off)`) || document.querySelector("#groups .cell:not(.off)"));
  }

  // ---- a group: a matrix, or tiles --------------------------------------------------------------
  class Board {
    constructor(group) {
      this.group = group;
      this.count = element("span", { class: "n" });
      this.box = element("div", { class: "box" });
      const title = group.name || (groups.length > 1 ? "all others" : "");
      this.section = element("section", { class: group.rows ? "group grid" : "group", "aria-label": title || "Items" },
        title ? element("h3", {}, title, this.count) : null, this.box);
      this.box.addEventListener("scroll", () => {
        const { scrollHeight, scrollTop, clientHeight } = this.box;
        if (scrollHeight - scrollTop - clientHeight < 500) this.extend();
      }, { passive: true });
      this.start();
    }

    refresh() {
      this.kept = this.all().filter((one) => this.places(one).some((item) => item >= 0 && on[item]));
      this.shown = 0;
      this.body.replaceChildren();
      this.box.scrollTop = 0;
      this.section.hidden = !this.kept.length;
      const items = this.all().flatMap((one) => this.places(one)).filter((item) => item >= 0);
      const left = items.filter((item) => on[item]).length;
      this.count.textContent = left === items.length ? `${counted(left)} items` : `${counted(left)} of ${counted(items.length)} items`;
      this.extend();
    }

    extend() {
      if (this.shown >= this.kept.length) return false;
      const next = this.kept.slice(this.shown, this.shown + this.chunk);
      this.body.append(...next.map((one) => this.made(one)));
      this.shown += next.length;
      return true;
    }
  }

  class Matrix extends Board {
    start() {
      this.chunk = ROWS;
      this.body = element("tbody", {});
      this.box.append(element("table", { class: "matrix" }, this.head(), this.body));
    }

    all() { return this.group.rows; }

    places(row) { return row[1]; }

    /** A row for each axis; equal values side by side are one cell, as far as those above are. */
    head() {
      const { axes, columns: values } = this.group;
      const same = (a, b, depth) => values[a].slice(0, depth + 1).every((value, axis) => value === values[b][axis]);
      const lines = axes.map((axis, depth) => {
        const cells = [element("th", { scope: "col" }, axis)];
        for (let at = 0; at < values.length;) {
          let end = at + 1;
          while (end < values.length && same(at, end, depth)) end += 1;
          cells.push(element("th", { scope: end - at > 1 ? "colgroup" : "col", colspan: end - at }, values[at][depth]));
          at = end;
        }
        return element("tr", {}, ...cells);
      });
      return element("thead", {}, ...lines);
    }

    made([program, places]) {
      const cells = places.map((item) => {
        if (item < 0) return element("td", {});
        const button = cell(item);
        if (!on[item]) button.classList.add("off");
        return element("td", {}, button);
      });
      return element("tr", {}, element("th", { scope: "row", title: program }, program), ...cells);
    }
  }

  class Tiles extends Board {
    start() {
      this.chunk = TILES;
      this.body = element("div", { class: this.group.tiles.length > FEW ? "tiles" : "tiles named" });
      this.box.append(this.body);
    }

    all() { return this.group.tiles; }

    places(item) { return [item]; }

    made(item) {
      const short = text("program", item).split("/").pop();
      return cell(item, this.group.tiles.length > FEW ? null : short);
    }
  }

  const boards = groups.map((group) => (group.rows ? new Matrix(group) : new Tiles(group)));
  byId("groups").append(...boards.map((board) => board.section));

  // ---- the item that is looked at ---------------------------------------------------------------
  const aside = byId("about-item");
  const time = (seconds) => (seconds === null ? "" : `${seconds.toFixed(seconds < 10 ? 2 : 0)} s`);

  /** Label and text of all that is known of an item. */
  function told(item) {
    const outputs = columns.outputs[item];
    const more = columns.findings[item] - 1;
    const used = [time(columns.seconds[item]), columns.cpu[item] === null ? "" : `${time(columns.cpu[item])} CPU`,
      columns.memory[item] ? `${counted(Math.round(columns.memory[item] / 1048576))} MB` : ""];
    return [
      ["expected", columns.unexpected[item] ? text("expected", item) : ""],
      [text("code", item) || "why", text("why", item)],
      ["sequential", text("seq_source", item)],
      ["ranks", text("dist_source", item)],
      ["repair", text("repair", item)],
      ["further findings", more > 0 ? String(more) : ""],
      ["outputs", outputs ? `${columns.mapped[item]} of ${outputs} rebuilt` : ""],
      ["time", used.filter(Boolean).join(", ")],
      ["the verdict is that of", text("like", item)],
    ].filter(([, known]) => known);
  }

  function own(item) {
    const name = text("report", item);
    if (name) return element("a", { class: "own", href: data.reports + name }, "Its own report");
    if (!columns.outputs[item]) return null;
    return element("p", { class: "quiet" }, "It has no report of its own: ", element("code", {}, "--keep facts"), " writes one for every item.");
  }

  function show(item) {
    current = item;
    const name = text("status", item);
    const close = element("button", { type: "button", class: "close", "aria-label": "Close" }, "✕");
    close.addEventListener("click", hide);
    const rows = told(item).map(([label, known]) => element("div", {}, element("dt", {}, label), element("dd", {}, ...said(known))));
    aside.replaceChildren(close, element("h3", {}, text("item", item)),
      element("p", {}, element("span", { class: `badge s-${name}` }, `${glyphs[name]} ${name}`)),
      element("dl", {}, ...rows), ...[own(item)].filter(Boolean));
    aside.hidden = false;
    aside.scrollTop = 0;
    aside.parentElement.classList.add("beside");
    document.body.classList.add("showing");
  }

  function hide() {
    const at = document.querySelector(`.cell[data-item="${current}"]`);
    current = -1;
    document.querySelectorAll(".cell[aria-current]").forEach((one) => one.removeAttribute("aria-current"));
    aside.hidden = true;
    aside.parentElement.classList.remove("beside");
    document.body.classList.remove("showing");
    if (at) at.focus({ preventScroll: true });
  }

  function mark(button) { button.setAttribute("aria-current", "true"); }

  function choose(button) {
    document.querySelectorAll(".cell[aria-current]").forEach((one) => one.removeAttribute("aria-current"));
    mark(button);
    show(Number(button.dataset.item));
    enter(button);
  }

  /** One cell of all is reached by Tab, from there the arrow keys go on. */
  function enter(button) {
    document.querySelectorAll('#groups .cell[tabindex="0"]').forEach((one) => one.setAttribute("tabindex", "-1"));
    if (button) button.setAttribute("tabindex", "0");
  }

  // ---- arrow keys -------------------------------------------------------------------------------
  const SIDE = { ArrowLeft: -1, ArrowRight: 1 };
  const ALONG = { ArrowUp: -1, ArrowDown: 1, PageUp: -10, PageDown: 10 };

  /** Lines of cells as they stand on the page, group by group; what is filtered out is left out. */
  function lines() {
    const found = [];
    for (const board of boards.filter((one) => !one.section.hidden)) {
      const isMatrix = board instanceof Matrix;
      const cells = [...board.body.querySelectorAll(".cell")];
      const wide = isMatrix ? 0 : getComputedStyle(board.body).gridTemplateColumns.split(" ").length;
      if (isMatrix) for (const row of board.body.rows) found.push([...row.cells].slice(1).map((one) => one.firstElementChild));
      else for (let at = 0; at < cells.length; at += wide) found.push(cells.slice(at, at + wide));
    }
    return found;
  }

  const open = (one) => one && !one.classList.contains("off");

  function nearest(line, column) {
    const known = line.map((one, at) => (open(one) ? Math.abs(at - column) : Infinity));
    const best = Math.min(...known);
    return best === Infinity ? null : line[known.indexOf(best)];
  }

  function next(button, key) {
    const all = lines();
    const row = all.findIndex((line) => line.includes(button));
    const column = all[row].indexOf(button);
    if (key === "Home" || key === "End") {
      const line = all[row].filter(open);
      return line[key === "Home" ? 0 : line.length - 1];
    }
    if (key in SIDE) {
      const flat = all.flat().filter(open);
      return flat[flat.indexOf(button) + SIDE[key]];
    }
    const to = Math.max(0, Math.min(all.length - 1, row + ALONG[key]));
    return to === row ? null : nearest(all[to], column);
  }

  function moved(button, key) {
    const board = boards.find((one) => one.body.contains(button));
    const at = [...board.body.querySelectorAll(".cell")].indexOf(button);
    if (at > board.body.querySelectorAll(".cell").length - 200) board.extend();
    const to = next(button, key);
    if (!to) return;
    to.focus();
    choose(to);
  }

  const board = byId("groups");
  board.addEventListener("click", (event) => {
    const button = event.target.closest(".cell");
    if (button) choose(button);
  });
  board.addEventListener("keydown", (event) => {
    const button = event.target.closest(".cell");
    if (!button || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in SIDE || event.key in ALONG || event.key === "Home" || event.key === "End") {
      event.preventDefault();
      moved(button, event.key);
    } else if (event.key === "Enter") {
      event.preventDefault();
      const known = current === Number(button.dataset.item);
      choose(button);
      const link = aside.querySelector(".own");
      if (known && link && link.href) link.click();
    } else if (event.key === "Escape") {
      hide();
    } else if (event.key.length === 1 && event.key !== " " && event.key !== "/") {
      search.focus({ preventScroll: true }); // the character goes where the focus is
      search.select();
    }
  });

  // ---- what filters -----------------------------------------------------------------------------
  for (const field of fields) field.addEventListener("input", refresh);
  const form = document.querySelector(".filters");
  form.addEventListener("submit", (event) => event.preventDefault());
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== "ArrowDown") return;
    event.preventDefault();
    const first = document.querySelector("#groups .cell:not(.off)");
    if (first) { first.focus(); choose(first); }
  });
  form.addEventListener("reset", () => setTimeout(refresh));

  function pressed(button, field, value) {
    const was = field.value === value;
    form.reset();
    setTimeout(() => {
      field.value = was ? "" : value;
      refresh();
      if (!was) byId("items").scrollIntoView();
    });
  }
  document.querySelectorAll("[data-status]").forEach((one) => one.addEventListener("click", () => pressed(one, status, one.dataset.status)));
  document.querySelectorAll("[data-cause]").forEach((one) => one.addEventListener("click", () => pressed(one, cause, one.dataset.cause)));

  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      search.focus({ preventScroll: true });
      byId("items").scrollIntoView();
    }
    if (event.key === "Escape" && event.target === search) { search.value = ""; refresh(); }
    else if (event.key === "Escape" && !aside.hidden) hide();
  });

  refresh();
})();
