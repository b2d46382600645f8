// Pictures in SVG: lines over epochs, bars of q(L), and dots of the calibration. Each has its numbers in a table.

import { digits, element, plain, table } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 52, RIGHT = 12, TOP = 10, BOTTOM = 30;

function shape(name, attributes, ...inside) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}

/** Round numbers from low to high, about n of them. */
export function ticks(low, high, n) {
  const span = high - low || 1;
  const rough = span / n, ten = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * ten).find((one) => one >= rough);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * span; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}

function logTicks(low, high) {
  const found = [];
  for (let k = Math.floor(Math.log10(low)); 10 ** k <= high; k++) {
    for (const m of high > 200 * low ? [1] : [1, 2, 5]) if (m * 10 ** k >= low && m * 10 ** k <= high) found.push(m * 10 ** k);
  }
  return found;
}

class Picture {
  /** @param {HTMLElement} panel where it goes. @param {string} label what it shows, for who does not see it. */
  constructor(panel, label, height) {
    this.label = label;
    this.height = height;
    this.width = 0;
    this.svg = shape("svg", { class: "chart", role: "img", tabindex: "0", "aria-label": label });
    this.behind = element("div", { class: "wide", tabindex: "0", role: "group", "aria-label": `${label}: numbers` });
    this.details = element("details", {}, element("summary", {}, "Numbers"), this.behind);
    panel.append(this.svg, this.details);
    this.details.addEventListener("toggle", () => this.tabulate());
    new ResizeObserver(() => {
      if (this.svg.clientWidth !== this.width) this.render();
    }).observe(this.svg);
  }

  /** An empty canvas of the width that there is. */
  cleared() {
    this.width = this.svg.clientWidth || 400;
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.svg.style.height = `${this.height}px`;
    this.svg.replaceChildren();
  }

  tabulate() {
    if (this.details.open && this.data) this.behind.replaceChildren(this.numbers());
  }
}

/** Lines over epochs, one of them with a band; arrow keys and the pointer read them off. */
export class Lines extends Picture {
  constructor(panel, label, { log = false, unit = "" } = {}) {
    super(panel, label, 230);
    this.log = log;
    this.legend = element("ul", { class: "legend" });
    panel.insertBefore(this.legend, this.svg);
    this.said = element("p", { class: "unseen", "aria-live": "polite" });
    panel.append(this.said);
    this.unit = unit;
    this.at = null;
    this.svg.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.svg.addEventListener("pointerleave", () => this.look(null));
    this.svg.addEventListener("blur", () => this.look(null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
  }

  /**
   * @param {{x: number[], lines: {name: string, colour: string, values: number[], thin?: number[][]}[],
   *   band?: number[], end?: number, zero?: boolean}} data a band lies so far to either side of the first line, and with a zero not below it.
   */
  draw(data) {
    this.data = data;
    this.render();
    this.tabulate();
  }

  render() {
    this.cleared();
    if (!this.data || !this.data.x.length) return;
    const { x, lines, band, end } = this.data;
    const thin = this.data.zero ? lines.flatMap((line) => line.thin.flat()) : [];
    const least = this.data.zero ? 0 : -Infinity;
    const [below, above] = [-1, 1].map((side) => (band || []).map((v, i) => Math.max(least, lines[0].values[i] + side * v)));
    const values = lines.flatMap((line) => line.values).concat(thin, below, above).filter(Number.isFinite);
    let low = Math.min(...values), high = Math.max(...values);
    const log = this.log && low > -0.1;
    if (log) [low, high] = [Math.max(low, 0.1) / 1.3, Math.max(high, 0.2) * 1.3];
    else {
      if (this.log || this.data.late) { // show where the training went, not the height that it came down from
        const late = lines.flatMap((line) => line.values.slice(Math.floor(line.values.length / 10))).filter(Number.isFinite);
        high = Math.max(...late);
      }
      const pad = 0.06 * (high - low || 1);
      [low, high] = [this.data.zero ? Math.min(0, low) : low - pad, high + pad];
    }
    const last = Math.max(end || 0, x[x.length - 1], 2);
    const right = this.width - RIGHT, bottom = this.height - BOTTOM;
    const scale = log ? Math.log : (v) => v;
    this.toX = (v) => LEFT + ((v - 1) / (last - 1)) * (right - LEFT);
    const toY = (v) => bottom - ((scale(log ? Math.max(v, low) : v) - scale(low)) / (scale(high) - scale(low))) * (bottom - TOP);
    for (const v of log ? logTicks(low, high) : ticks(low, high, 4)) {
      this.svg.append(shape("line", { class: "grid", x1: LEFT, x2: right, y1: toY(v), y2: toY(v) }));
      this.svg.append(shape("text", { class: "end", x: LEFT - 6, y: toY(v) + 4 }, plain(v)));
    }
    this.svg.append(shape("line", { class: "axis", x1: LEFT, x2: right, y1: bottom, y2: bottom }));
    for (const v of ticks(1, last, Math.max(2, Math.floor(this.width / 110)))) {
      this.svg.append(shape("text", { class: "middle", x: Math.min(this.toX(v), right - 8), y: bottom + 18 }, plain(v)));
    }
    const inside = shape("svg", { x: 0, y: TOP, width: this.width, height: bottom - TOP, viewBox: `0 ${TOP} ${this.width} ${bottom - TOP}` });
    const path = (ys) => ys.map((v, i) => (Number.isFinite(v) ? `${i && Number.isFinite(ys[i - 1]) ? "L" : "M"}${this.toX(x[i]).toFixed(1)} ${toY(v).toFixed(1)}` : "")).join("");
    const coloured = (made, colour) => {
      made.style.setProperty("--colour", colour);
      inside.append(made);
    };
    if (band) {
      const back = below.map((v, i) => `L${this.toX(x[i]).toFixed(1)} ${toY(v).toFixed(1)}`).reverse().join("");
      coloured(shape("path", { class: "band", d: `${path(above)}${back}Z` }), lines[0].colour);
    }
    for (const line of [...lines].reverse()) {
      for (const one of line.thin || []) coloured(shape("path", { class: `line thin${line.thin.length > 6 ? " many" : ""}`, d: path(one) }), line.colour);
      coloured(shape("path", { class: "line", d: path(line.values) }), line.colour);
    }
    this.svg.append(inside);
    this.cursor = shape("line", { class: "cursor", y1: TOP, y2: bottom, visibility: "hidden" });
    this.svg.append(this.cursor);
    this.tell();
  }

  /** The names of the lines, with their values at the cursor, or else at the end. */
  tell() {
    const { x, lines, band } = this.data;
    const i = this.at === null ? x.length - 1 : Math.min(this.at, x.length - 1);
    this.cursor.setAttribute("visibility", this.at === null ? "hidden" : "visible");
    this.cursor.setAttribute("x1", this.toX(x[i]));
    this.cursor.setAttribute("x2", this.toX(x[i]));
    const texts = lines.map((line, k) => {
      const more = band && k === 0 ? ` ± ${digits(band[i])}` : "";
      return [line, `${digits(line.values[i])}${more}`];
    });
    this.legend.replaceChildren(
      ...texts.map(([line, text]) => {
        const swatch = element("i");
        swatch.style.setProperty("--colour", line.colour);
        return element("li", {}, swatch, `${line.name} `, element("b", { "data-of": line.name }, text));
      }),
      element("li", { class: "at" }, `epoch ${plain(x[i])}`),
    );
    const words = `epoch ${x[i]}: ${texts.map(([line, text]) => `${line.name} ${text}`).join(", ")}`;
    this.svg.setAttribute("aria-label", `${this.label}. At ${words}${this.unit}.`);
    return words;
  }

  look(i) {
    if (!this.data?.x.length || this.at === i) return;
    this.at = i;
    const words = this.tell();
    if (i !== null && document.activeElement === this.svg) this.said.textContent = words;
  }

  point(pixel) {
    if (!this.data?.x.length) return;
    const far = this.data.x.map((v) => Math.abs(this.toX(v) - pixel));
    this.look(far.indexOf(Math.min(...far)));
  }

  key(event) {
    const n = this.data?.x.length || 0, now = this.at ?? n - 1;
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, PageUp: now - 20, PageDown: now + 20, Home: 0, End: n - 1 }[event.key];
    if (to === undefined || !n) return;
    event.preventDefault();
    this.look(Math.max(0, Math.min(n - 1, to)));
  }

  numbers() {
    const { x, lines, band } = this.data;
    const n = x.length, some = new Set();
    for (let k = 0; k < 25; k++) some.add(Math.round((k * (n - 1)) / 24));
    const heads = ["epoch", ...lines.map((line) => line.name), ...(band ? ["standard deviation"] : [])];
    const rows = [...some].map((i) => [plain(x[i]), ...lines.map((line) => digits(line.values[i], 5)),
      ...(band ? [digits(band[i], 5)] : [])]);
    return table(heads, rows, heads.map(() => true));
  }
}

/** q(L) as bars that move, before p(L) where it is known; a mark for each network. */
export class Bars extends Picture {
  constructor(panel, label) {
    super(panel, label, 260);
    this.bars = [];
  }

  /** @param {{mean: number[], prior?: number[], each: number[][]}} data */
  draw(data) {
    const size = (one) => one.reduce((most, mass, k) => (mass > 0.004 ? k + 1 : most), 1);
    this.data = { ...data, n: Math.max(4, size(data.mean), size(data.prior || [])) };
    if (this.n !== this.data.n || this.hadPrior !== Boolean(data.prior) || this.marks !== data.each.length) this.render();
    this.move();
    this.tabulate();
  }

  render() {
    this.cleared();
    if (!this.data) return;
    const { n, prior, each } = this.data;
    [this.n, this.hadPrior, this.marks] = [n, Boolean(prior), each.length];
    const right = this.width - RIGHT, bottom = this.height - BOTTOM, top = TOP + 16;
    this.tall = bottom - top;
    const room = (right - LEFT) / n;
    for (const v of [0, 0.25, 0.5, 0.75, 1]) {
      const y = bottom - v * this.tall;
      this.svg.append(shape("line", { class: v ? "grid" : "axis", x1: LEFT, x2: right, y1: y, y2: y }));
      this.svg.append(shape("text", { class: "end", x: LEFT - 6, y: y + 4 }, `${v}`));
    }
    const every = Math.ceil(n / Math.max(3, Math.floor(this.width / 40)));
    this.bars = [];
    for (let k = 0; k < n; k++) {
      const centre = LEFT + room * (k + 0.5);
      const made = (cls, wide) => {
        const bar = shape("rect", { class: cls, x: centre - (wide * room) / 2, y: bottom - this.tall, width: wide * room, height: this.tall });
        bar.style.transformOrigin = `0 ${bottom}px`;
        bar.style.transform = "scaleY(0)";
        this.svg.append(bar);
        return bar;
      };
      const before = prior ? made("before", 0.86) : null;
      const bar = made("bar", 0.58);
      const marks = each.map(() => {
        const mark = shape("line", { class: "mark", x1: centre - 0.2 * room, x2: centre + 0.2 * room, y1: bottom, y2: bottom });
        this.svg.append(mark);
        return mark;
      });
      const value = shape("text", { class: "value", x: centre, y: bottom - 5 });
      this.svg.append(value);
      if (k % every === 0) this.svg.append(shape("text", { class: "middle", x: centre, y: bottom + 18 }, `${k}`));
      this.bars.push({ before, bar, marks, value });
    }
    this.move();
  }

  move() {
    const { mean, prior, each, n } = this.data;
    this.bars.forEach(({ before, bar, marks, value }, k) => {
      const mass = mean[k] || 0;
      bar.style.transform = `scaleY(${mass})`;
      if (before) before.style.transform = `scaleY(${prior[k] || 0})`;
      marks.forEach((mark, i) => (mark.style.transform = `translateY(${-(each[i]?.[k] || 0) * this.tall}px)`));
      const near = each.map((one) => one[k] || 0).filter((one) => one > mass && one < mass + 0.15);
      value.style.transform = `translateY(${-Math.max(mass, ...near) * this.tall}px)`;
      value.textContent = mass >= 0.005 && n <= 12 ? mass.toFixed(2) : "";
    });
    const said = mean.map((mass, k) => (mass >= 0.005 ? `L = ${k}: ${mass.toFixed(3)}` : "")).filter(Boolean);
    this.svg.setAttribute("aria-label", `${this.label}. ${said.join(", ")}.`);
  }

  numbers() {
    const { mean, prior, n } = this.data;
    const rows = Array.from({ length: Math.max(n, mean.length) }, (_, k) => [`${k}`, digits(mean[k] || 0, 4), ...(prior ? [digits(prior[k] || 0, 4)] : [])]);
    return table(["depth L", "q(L)", ...(prior ? ["p(L)"] : [])], rows);
  }
}

/** How often it is right against how sure it is; on the diagonal it is honest. */
export class Dots extends Picture {
  constructor(panel, label) {
    super(panel, label, 260);
  }

  /** @param {{across: string, up: string, points: {x: number, y: number, size: number}[]}} data */
  draw(data) {
    this.data = data;
    this.render();
    this.tabulate();
  }

  render() {
    this.cleared();
    if (!this.data) return;
    const bottom = this.height - BOTTOM - 14, side = Math.min(this.width - LEFT - RIGHT, bottom - TOP);
    const { points, across, up } = this.data;
    const low = Math.max(0, Math.min(0.8, ...points.map((p) => Math.min(p.x, p.y) - 0.05)));
    const begin = LEFT + Math.max(0, (this.width - LEFT - RIGHT - side) / 2);
    const toX = (v) => begin + ((v - low) / (1 - low)) * side, toY = (v) => bottom - ((v - low) / (1 - low)) * side;
    for (const v of ticks(low, 1, 4)) {
      const text = `${Math.round(100 * v)} %`;
      this.svg.append(shape("line", { class: "grid", x1: begin, x2: begin + side, y1: toY(v), y2: toY(v) }));
      this.svg.append(shape("text", { class: "end", x: begin - 6, y: toY(v) + 4 }, text));
      this.svg.append(shape("text", { class: "middle", x: toX(v), y: bottom + 16 }, text));
    }
    this.svg.append(shape("line", { class: "axis", x1: toX(low), y1: toY(low), x2: toX(1), y2: toY(1) }));
    const all = points.reduce((sum, p) => sum + p.size, 0) || 1;
    for (const p of points) {
      const dot = shape("circle", { class: "dot", cx: toX(p.x), cy: toY(p.y), r: 3 + 9 * Math.sqrt(p.size / all) });
      dot.style.setProperty("--colour", "var(--depth)");
      this.svg.append(dot);
    }
    this.svg.append(shape("text", { class: "middle", x: begin + side / 2, y: bottom + 34 }, across));
    const name = shape("text", { class: "middle", transform: `translate(${begin - 46} ${bottom - side / 2}) rotate(-90)` }, up);
    this.svg.append(name);
  }

  numbers() {
    const { points, across, up } = this.data;
    const percent = (v) => `${(100 * v).toFixed(1)} %`;
    return table([across, up, "rows"], points.map((p) => [percent(p.x), percent(p.y), p.rows === undefined ? "–" : plain(p.rows)]), [true, true, true]);
  }
}
