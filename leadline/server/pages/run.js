// One training: its curves, its belief about the depth, and what came of it.

import { Bars, Dots, Lines } from "./charts.js";
import { digits, duration, element, plain } from "./words.js";

const get = (id) => document.getElementById(id);
const TERMS = [["free_energy", "free energy", "var(--ink)"], ["weight_kl", "weight KL", "var(--weights)"],
  ["expected_nll", "expected NLL", "var(--data)"], ["depth_kl", "depth KL", "var(--depth)"]];
const PHASES = { learning: "learning without the weight KL", "warm-up": "warming up", training: "training", annealing: "annealing" };
const PATIENCE = 3000;

export class RunView {
  constructor() {
    this.depth = new Bars(get("depth"), "Bars of the probability of each depth, q(L)");
    get("depth").append(element("p", {}, element("small", { id: "depth-words" })));
    this.mean = new Lines(get("mean"), "The expected depth over the epochs, with a band of one standard deviation");
    get("mean").append(element("p", {}, element("small", {}, "The mean over the networks, with a band of one standard deviation. Thin: the single networks.")));
    this.energy = new Lines(get("energy"), "The free energy and its parts over the epochs", { log: true, unit: " nats, all training rows" });
    get("energy").append(element("p", {}, element("small", {}, "In nats over all training rows; the expected NLL is that of rows held out, scaled to as many. Means over the networks.")));
    this.validation = new Lines(get("validation"), "The negative log-likelihood of the validation rows over the epochs", { unit: " nats per row" });
    get("validation").append(element("p", {}, element("small", {}, "How badly rows are predicted that a network was not trained on, in nats per row. Thin: the single networks.")));
    this.calibration = new Dots(get("calibration"), "Dots of how often it is right against how sure it is");
    get("calibration").append(element("p", {}, element("small", {}, "On the diagonal it is honest; below it was too sure, above it too cautious.")));
    this.clear();
  }

  clear() {
    this.points = null;
    this.drawn = null;
    this.asked = -Infinity;
    clearTimeout(this.later);
    for (const id of ["regions", "calibration", "measures", "settings", "restarts"]) get(id).hidden = true;
    document.body.removeAttribute("data-epoch");
  }

  draw({ now, anew, points, record, regions }) {
    if (anew || !this.points) this.points = {};
    for (const [name, column] of Object.entries(points)) this.points[name] = [...(this.points[name] || []), ...column];
    const title = now.title || "A run";
    get("title").textContent = title;
    document.title = `${title} – Leadline`;
    this.drawWords(now, record);
    this.drawCards(now, record);
    this.drawCurves(now);
    this.drawDepth(now);
    this.drawRestarts(now);
    this.drawRecord(record);
    this.drawRegions(now, regions);
    document.body.dataset.status = now.status;
    if (now.last) document.body.dataset.epoch = now.last.epoch;
  }

  drawWords(now, record) {
    const { last, epochs, status, phase, left } = now;
    const of = epochs ? ` of ${plain(epochs)}` : "";
    const epoch = last ? `epoch ${plain(last.epoch)}${of}` : "no epoch yet";
    const words = {
      running: `Running: ${epoch}${phase ? `, ${PHASES[phase] ?? phase}` : ""}${left === null ? "" : `; about ${duration(left)} left`}.`,
      finished: record?.words ?? "Finished.",
      interrupted: `Interrupted at ${epoch}: this is not the final result.`,
      stopped: `Stopped at ${epoch}: nobody trains it any more. The same command goes on from its last checkpoint.`,
    };
    get("words").textContent = words[status] ?? "";
    const progress = get("progress");
    progress.hidden = status !== "running" || !epochs || !last;
    if (!progress.hidden) progress.value = last.epoch / epochs;
  }

  drawCards(now, record) {
    const last = now.last, cards = [];
    const mean = record ? record.depth_mean : last?.depth_mean, std = record ? record.depth_std : last?.depth_std;
    if (mean !== undefined) cards.push(["E[L], depth", "depth_mean", digits(mean), ` ± ${digits(std)}`]);
    if (record) for (const one of record.measures.slice(0, 2)) cards.push([one.label, one.name, one.value, ""]);
    if (last && !(record && record.measures.length)) cards.push(["Validation NLL", "validation_nll", digits(last.validation_nll), " nats"]);
    const energy = record?.free_energy ?? last?.free_energy;
    if (energy !== undefined && energy !== null) cards.push(["Free energy", "free_energy", digits(energy), " nats"]);
    if (last) cards.push(["Epochs", "epochs", plain(last.epoch), now.epochs ? ` of ${plain(now.epochs)}` : ""]);
    const seconds = record?.seconds ?? last?.seconds;
    if (typeof seconds === "number") cards.push(["Time", "seconds", duration(seconds), now.left === null ? "" : `, ${duration(now.left)} left`]);
    get("cards").replaceChildren(...cards.map(([name, key, value, more]) =>
      element("div", {}, element("dt", {}, name), element("dd", { "data-name": key }, value, element("small", {}, more)))));
  }

  drawCurves(now) {
    const of = (name) => {
      const column = this.points[name] || [];
      return now.last && column.length && this.points.epoch[column.length - 1] !== now.last.epoch ? [...column, now.last[name]] : column;
    };
    const x = of("epoch"), end = now.status === "running" ? now.epochs : null;
    for (const id of ["mean", "energy", "validation"]) get(id).hidden = !x.length;
    if (!x.length) return;
    const each = (name) => {
      const rows = of(`${name}_each`), n = rows[0]?.length ?? 0;
      return n > 1 ? Array.from({ length: n }, (_, k) => rows.map((row) => row[k])) : [];
    };
    const mean = of("depth_mean"), std = of("depth_std");
    this.mean.draw({ x, end, zero: true, lines: [{ name: "E[L]", colour: "var(--depth)", values: mean, thin: each("depth_mean") }],
      band: std });
    const terms = TERMS.filter(([key]) => of(key).some((v) => v));
    this.energy.draw({ x, end, lines: terms.map(([key, name, colour]) => ({ name, colour, values: of(key) })) });
    this.validation.draw({ x, end, late: true, lines: [{ name: "validation NLL", colour: "var(--data)", values: of("validation_nll"), thin: each("validation_nll") }] });
  }

  drawDepth({ depth }) {
    get("depth").hidden = !depth;
    if (!depth) return;
    this.depth.draw({ mean: depth.mean, prior: depth.prior, each: depth.each });
    const marks = depth.each.length > 1 ? " Marks: the single networks." : "";
    const before = depth.prior ? " Grey: p(L), before the training." : "";
    const weighed = depth.weighed ? " The networks count as the rows held out weigh them." : "";
    get("depth-words").textContent = `After epoch ${plain(depth.epoch)}.${weighed}${marks}${before}`;
    get("depth").dataset.epoch = depth.epoch;
  }

  drawRestarts({ restarts }) {
    get("restarts").hidden = restarts.length < 2;
    const cells = (one, i) => [`${i + 1}`, digits(one.temperature), one.phase, digits(one.free_energy), digits(one.validation_nll),
      `${digits(one.depth_mean)} ± ${digits(one.depth_std, 2)}`, `${one.depth_support[0]} to ${one.depth_support[1]}`];
    get("restarts").querySelector("tbody").replaceChildren(...restarts.map((one, i) => {
      const [first, ...others] = cells(one, i);
      return element("tr", {}, element("th", { scope: "row" }, first),
        ...others.map((text, k) => element("td", k === 1 ? {} : { class: "number" }, text)));
    }));
  }

  drawRecord(record) {
    for (const id of ["measures", "settings", "calibration"]) get(id).hidden = !record;
    if (!record) return;
    get("measures").hidden = !record.measures.length;
    get("measures-words").textContent = record.n_test ? `On ${plain(record.n_test)} rows that were not used for training.` : "";
    get("measures").querySelector("tbody").replaceChildren(...record.measures.map((one) => element("tr", {},
      element("th", { scope: "row" }, one.label, element("small", {}, one.meaning)),
      element("td", { class: "number", "data-name": one.name }, one.value))));
    const said = Object.entries(record.settings);
    if (record.target) said.unshift(["target", record.target]);
    if (record.columns.length) said.push(["columns", record.columns.join(", ")]);
    get("settings").querySelector("tbody").replaceChildren(...said.map(([name, value]) =>
      element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, value))));
    const { reliability: bins, coverage } = record;
    get("calibration").hidden = !bins && !coverage;
    if (bins) {
      const points = bins.rows.map((rows, i) => ({ x: bins.confidence[i], y: bins.right[i], rows, size: rows })).filter((one) => one.rows > 0);
      this.calibration.draw({ across: "how sure it is", up: "how often it is right", points });
    } else if (coverage) {
      const points = coverage.level.map((level, i) => ({ x: level, y: coverage.observed[i], size: 0 }));
      this.calibration.draw({ across: "rows that an interval should hold", up: "rows that it holds", points });
    }
  }

  /** Asked for apart from all else, and not too often: the server draws them itself. */
  async drawRegions(now, regions) {
    if (now.picture && this.drawn !== now.picture) {
      this.drawn = now.picture;
      get("spiral").src = `picture?run=${encodeURIComponent(now.run)}&of=${now.picture}`;
      get("regions-words").textContent = "As the training left them, beside q(L) and the calibration.";
    }
    get("regions-left").hidden = !now.picture;
    get("regions-picture").hidden = Boolean(now.picture);
    get("regions").classList.toggle("broad", Boolean(now.picture));
    if (now.picture) get("regions").hidden = false;
    clearTimeout(this.later);
    if (!regions || now.picture || this.drawn === regions) return;
    const early = this.asked + PATIENCE - performance.now();
    if (early > 0) {
      this.later = setTimeout(() => this.drawRegions(now, regions), early);
      return;
    }
    this.asked = performance.now();
    const answer = await fetch(`regions?run=${encodeURIComponent(now.run)}`);
    if (answer.status !== 200 || get("regions-picture").hidden) return;
    this.drawn = regions;
    const said = await answer.json();
    get("regions").hidden = false;
    paint(get("regions-picture"), said);
    const shares = said.classes.map((name, k) => `${name}: ${Math.round((100 * said.class.filter((one) => one === k).length) / said.class.length)} %`);
    get("regions-picture").setAttribute("aria-label", `The plane of ${said.columns.join(" and ")}, coloured by the most probable class after epoch ${said.epoch}. Shares of the plane: ${shares.join(", ")}.`);
    get("regions-words").textContent = `After epoch ${plain(said.epoch)}, over ${said.columns.join(" (across) and ")} (up). Of this plane, ${shares.join(", ")}. Fainter: less sure.`;
    get("regions-picture").dataset.epoch = said.epoch;
  }
}

/** The classes as colours on the page's paper, and the rows as dots. */
function paint(canvas, said) {
  const { n, extent, dots } = said, small = new OffscreenCanvas(n, n);
  const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  const colours = said.colours.map(rgb);
  const paper = rgb(getComputedStyle(document.documentElement).getPropertyValue("--paper").trim());
  const image = new ImageData(n, n);
  said.class.forEach((k, i) => {
    const share = (0.62 * said.sure[i]) / 255, row = n - 1 - Math.floor(i / n);
    const at = 4 * (row * n + (i % n));
    colours[k].forEach((value, c) => (image.data[at + c] = paper[c] + share * (value - paper[c])));
    image.data[at + 3] = 255;
  });
  small.getContext("2d").putImageData(image, 0, 0);
  const context = canvas.getContext("2d"), { width, height } = canvas;
  context.imageSmoothingEnabled = true;
  context.imageSmoothingQuality = "high";
  context.drawImage(small, 0, 0, width, height);
  const [left, right, bottom, top] = extent;
  for (const [x, y, k] of dots) {
    context.beginPath();
    context.arc(((x - left) / (right - left)) * width, ((top - y) / (top - bottom)) * height, 3.2, 0, 7);
    context.fillStyle = said.colours[k];
    context.fill();
    context.lineWidth = 0.8;
    context.strokeStyle = "#ffffff";
    context.stroke();
  }
}
