// All runs of a directory, and the rows of its tables: shaded by what one asks for, and as a list.

import { digits, duration, element, plain, table } from "./words.js";

const get = (id) => document.getElementById(id);

const NAMES = { omega: "ω", n_restarts: "restarts", depth_mean: "E[L]", depth_std: "sd of L", free_energy: "free energy",
  validation_nll: "validation NLL" };

const STATUS = { running: "running", finished: "finished", interrupted: "interrupted", stopped: "stopped" };

export class Overview {
  constructor(about) {
    this.about = about;
    for (const id of ["map-value", "map-across", "map-down"]) {
      get(id).addEventListener("change", () => {
        this.chosen[id] = get(id).value;
        this.drawMap();
      });
    }
    this.chosen = {};
  }

  name(column) {
    return this.about.measures[column]?.label ?? NAMES[column] ?? column;
  }

  draw(said) {
    const { runs, tables, under_way: underWay } = said;
    this.rows = [
      ...runs.map((run) => ({ ...run, row: run.values })),
      ...tables.flatMap(({ name, rows }) => rows.map((row, i) => ({ run: null, title: `${name}, row ${i + 1}`, row, id: `${name}|${i}` }))),
    ];
    const several = tables.length + (runs.length ? 1 : 0) > 1;
    if (several) {
      for (const one of this.rows) one.row = { table: one.id ? one.id.replace(/\|\d+$/, "") : "single runs", ...one.row };
    }
    const count = (n, noun) => `${n === 1 ? "one" : plain(n)} ${noun}${n === 1 ? "" : "s"}`;
    const words = [];
    const running = runs.filter((run) => run.status === "running").length;
    if (runs.length) words.push(`${count(runs.length, "run")}${running ? `, ${running} of them running` : ""}`);
    if (tables.length) words.push(`${count(this.rows.length - runs.length, "row")} in ${count(tables.length, "table")}`);
    if (underWay.length) {
      const epochs = underWay.map((one) => one.epoch).filter((epoch) => epoch !== null);
      words.push(`${count(underWay.length, "chunk")} in training, as of the last checkpoints at epoch ${Math.min(...epochs)}${epochs.length > 1 ? ` to ${Math.max(...epochs)}` : ""}`);
    }
    get("all-words").textContent = words.length ? `${words.join("; ")}.` : "Nothing of Leadline's is here yet. This page shows it as soon as it is.";
    this.drawMap();
    this.drawList(runs);
    this.drawRow();
  }

  /** What tells rows apart, and what one may compare. */
  columns() {
    const values = (name) => new Set(this.rows.map((one) => one.row[name]).filter((v) => v !== undefined));
    const axes = ["table", ...this.about.settings].filter((name) => values(name).size > 1);
    const numeric = (name) => this.rows.some((one) => typeof one.row[name] === "number");
    const shades = [...Object.keys(this.about.measures), ...this.about.learned].filter(numeric);
    const rank = (name) => values(name).size;
    return { axes: [...axes].sort((a, b) => rank(b) - rank(a)), shades, values };
  }

  drawMap() {
    const { axes, shades, values } = this.columns();
    get("map").hidden = this.rows.length < 2 || !axes.length || !shades.length;
    if (get("map").hidden) return;
    const choose = (id, options, usual) => {
      const value = options.includes(this.chosen[id]) ? this.chosen[id] : usual;
      const select = get(id), texts = options.join("\n");
      if (select.dataset.options !== texts) {
        select.dataset.options = texts;
        select.replaceChildren(...options.map((one) => element("option", { value: one }, one ? this.name(one) : "–")));
      }
      select.value = value;
      return value;
    };
    const shade = choose("map-value", shades, shades[0]);
    const across = choose("map-across", axes, axes[0]);
    const down = choose("map-down", ["", ...axes], axes.find((name) => name !== across) ?? "");
    const order = (name) => [...values(name)].sort((a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b))));
    const columns = order(across), lines = down ? order(down) : [undefined];
    const cells = lines.map((line) => columns.map((column) =>
      this.rows.filter((one) => one.row[across] === column && (!down || one.row[down] === line))));
    const mean = (some) => {
      const known = some.map((one) => one.row[shade]).filter((v) => typeof v === "number");
      return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
    };
    const all = cells.flat().map(mean).filter((v) => v !== null);
    const low = Math.min(...all), high = Math.max(...all);
    const head = element("tr", {}, element("td"), ...columns.map((one) => element("th", { scope: "col" }, plain(one))));
    const body = cells.map((row, i) => element("tr", {},
      element("th", { scope: "row" }, down ? plain(lines[i]) : ""),
      ...row.map((some, k) => element("td", {}, this.cell(some, mean(some), low, high, `${this.name(across)} ${columns[k]}${down ? `, ${this.name(down)} ${lines[i]}` : ""}`)))));
    const focused = document.activeElement?.dataset?.cell;
    get("map-table").replaceChildren(element("table", { class: "map" }, element("thead", {}, head), element("tbody", {}, ...body)));
    if (focused) get("map-table").querySelector(`[data-cell="${CSS.escape(focused)}"]`)?.focus();
    const better = this.about.measures[shade]?.better;
    const best = better === "higher" ? `, the higher the better` : better === "lower" ? `, the lower the better` : "";
    get("map-words").textContent = `${this.name(shade)}${best}; the deeper the shade, the larger. ${this.name(across)} across${down ? `, ${this.name(down)} down` : ""}. A cell of several runs has their mean; it opens them.`;
  }

  cell(some, value, low, high, where) {
    if (!some.length) return element("span", { class: "none", "aria-label": "none" }, "·");
    const text = value === null ? "…" : digits(value);
    const label = `${where}: ${text}${some.length > 1 ? `, mean of ${some.length}` : ""}`;
    const [one] = some;
    const made = some.length === 1 && one.run !== null
      ? element("a", { href: `#run=${encodeURIComponent(one.run)}`, "aria-label": label, "data-cell": where }, text)
      : element("button", { type: "button", "aria-label": label, "data-cell": where }, text);
    if (made.tagName === "BUTTON") {
      made.addEventListener("click", () => {
        this.opened = { where, key: some.map((row) => row.id ?? row.run) };
        this.drawRow();
        get("row-head").focus();
      });
    }
    made.style.setProperty("--share", value === null ? 0 : high > low ? (value - low) / (high - low) : 0.5);
    return made;
  }

  /** All that the tables say of the runs of a cell. */
  drawRow() {
    get("row").hidden = !this.opened;
    if (!this.opened) return;
    const some = this.rows.filter((one) => this.opened.key.includes(one.id ?? one.run));
    get("row-head").textContent = this.opened.where;
    const names = [...new Set(some.flatMap((one) => Object.keys(one.row)))];
    const show = (value) => (typeof value === "number" ? (Number.isInteger(value) ? plain(value) : digits(value, 4)) : value ?? "–");
    const rows = names.map((name) => [this.name(name), ...some.map((one) => show(one.row[name]))]);
    get("row-table").replaceChildren(table(["Column", ...some.map((one) => one.title)], rows));
  }

  drawList(runs) {
    get("list").hidden = !runs.length;
    const { measures } = this.about;
    const shown = Object.keys(measures).filter((name) => runs.some((run) => run.values[name] !== undefined)).slice(0, 2);
    const heads = ["Run", "Status", "Epoch", "E[L] ± sd", "Validation NLL", ...shown.map((name) => this.name(name)), "Left"];
    const rows = runs.map((run) => {
      const v = run.values;
      const link = element("a", { href: `#run=${encodeURIComponent(run.run)}` }, run.run || run.title);
      const named = run.run && run.title !== run.run ? element("span", {}, link, element("small", {}, run.title)) : link;
      return [named, element("span", { class: "chip", "data-status": run.status }, STATUS[run.status] ?? ""),
        v.epochs === undefined ? "–" : `${plain(v.epochs)}${run.epochs && run.status === "running" ? ` of ${plain(run.epochs)}` : ""}`,
        v.depth_mean === undefined ? "–" : `${digits(v.depth_mean)} ± ${digits(v.depth_std, 2)}`,
        digits(v.validation_nll ?? NaN), ...shown.map((name) => digits(v[name] ?? NaN)),
        run.left === null ? "" : `about ${duration(run.left)}`];
    });
    const focused = document.activeElement?.getAttribute?.("href");
    get("list-table").replaceChildren(table(heads, rows, heads.map((_, i) => i > 1)));
    if (focused) get("list-table").querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
  }
}
