// What a game looks like: planes of numbers as colours, points, lines. Knows nothing of the server.

const OF_VIEWS = { mixture: ["--zero", "--paper", "--one"], noise: ["--paper", "--data"],
  weights: ["--paper", "--weights"], depth: ["--paper", "--depth"] };
/** The nats of full colour, beyond which there is no more. */
export const FULL = { noise: Math.LN2, weights: 0.2, depth: 0.2 };
let palettes = {}, inks = {};

/** The colour of a name of the style, as [red, green, blue]. */
function colour(name) {
  return [1, 3, 5].map((at) => parseInt(css(name).slice(at, at + 2), 16));
}

/** Take the colours anew, as the page is light or dark now. */
export function recolour() {
  [palettes, inks] = [{}, {}];
  for (const [view, names] of Object.entries(OF_VIEWS)) {
    const stops = names.map(colour), paper = colour("--paper"), palette = new Uint8ClampedArray(1024);
    const strength = view === "mixture" ? 0.5 : 0.95, gain = Math.LN2 / (FULL[view] ?? Math.LN2);
    for (let i = 0; i < 256; i++) {
      const at = Math.min(1, (gain * i) / 255) * (stops.length - 1), k = Math.min(Math.floor(at), stops.length - 2);
      for (let c = 0; c < 3; c++) {
        const pure = stops[k][c] + (at - k) * (stops[k + 1][c] - stops[k][c]);
        palette[4 * i + c] = paper[c] + strength * (pure - paper[c]);
      }
      palette[4 * i + 3] = 255;
    }
    palettes[view] = palette;
  }
}

const sizes = new Map();
let redraw = () => {};
const resized = new ResizeObserver((canvases) => {
  for (const { target, contentRect } of canvases) sizes.set(target, contentRect);
  redraw();
});

/** Have it drawn again when a canvas has another size. */
export const whenResized = (draw) => void (redraw = draw);

/** A canvas has gone. */
export function forget(canvas) {
  sizes.delete(canvas);
  resized.unobserve(canvas);
}

/** Make a canvas as fine as the screen; its context, whose unit is a pixel of the style. Its size is measured once, for
 * to ask in the middle of a frame makes the browser lay out the page each time. */
export function fitted(canvas) {
  if (!sizes.has(canvas)) {
    sizes.set(canvas, canvas.getBoundingClientRect());
    resized.observe(canvas);
  }
  const scale = window.devicePixelRatio || 1, { width, height } = sizes.get(canvas);
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  return { context, width, height };
}

const small = document.createElement("canvas");

/** Fill a canvas with a plane of bytes, n by n, the lowest row first. */
export function field(canvas, bytes, n, view) {
  const { context, width, height } = fitted(canvas), palette = palettes[view];
  small.width = small.height = n;
  const ink = small.getContext("2d"), image = ink.createImageData(n, n), out = new Uint32Array(image.data.buffer);
  const colours = new Uint32Array(palette.buffer);
  for (let row = 0; row < n; row++) {
    const from = (n - 1 - row) * n;
    for (let k = 0; k < n; k++) out[row * n + k] = colours[bytes[from + k]];
  }
  ink.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = true;
  context.imageSmoothingQuality = "high";
  context.drawImage(small, 0, 0, n, n, 0, 0, width, height);
  return { context, width, height };
}

/** The line where both classes are as probable, by marching squares. */
export function border(context, size, bytes, n) {
  const at = (i) => ((i + 0.5) / n) * size, level = 127.5;
  const between = (a, b) => (level - a) / (b - a);
  context.beginPath();
  for (let row = 0; row < n - 1; row++) {
    for (let k = 0; k < n - 1; k++) {
      const i = row * n + k, [a, b, c, d] = [bytes[i], bytes[i + 1], bytes[i + n + 1], bytes[i + n]];
      const above = (a > level) + (b > level) + (c > level) + (d > level);
      if (above === 0 || above === 4) continue;
      const ends = [];
      if ((a > level) !== (b > level)) ends.push([at(k + between(a, b)), at(row)]);
      if ((b > level) !== (c > level)) ends.push([at(k + 1), at(row + between(b, c))]);
      if ((c > level) !== (d > level)) ends.push([at(k + between(d, c)), at(row + 1)]);
      if ((d > level) !== (a > level)) ends.push([at(k), at(row + between(a, d))]);
      for (let e = 0; e + 1 < ends.length; e += 2) {
        context.moveTo(ends[e][0], size - ends[e][1]);
        context.lineTo(ends[e + 1][0], size - ends[e + 1][1]);
      }
    }
  }
  context.strokeStyle = css("--ink");
  context.globalAlpha = 0.75;
  context.lineWidth = 1.2;
  context.stroke();
  context.globalAlpha = 1;
}

const css = (name) => (inks[name] ??= getComputedStyle(document.documentElement).getPropertyValue(name).trim());

/** Points [x, y, class]; the last `own` of them are the player's. */
export function points(context, size, rows, own, reach) {
  const place = (a) => ((a + reach) / (2 * reach)) * size;
  const classes = [css("--zero"), css("--one")], paper = css("--paper");
  for (const of of [0, 1]) {
    context.fillStyle = classes[of];
    context.beginPath();
    rows.forEach(([x, y, label], i) => {
      if (label !== of || i >= rows.length - own) return;
      const [a, b] = [place(x), size - place(y)];
      context.moveTo(a + 1.9, b);
      context.arc(a, b, 1.9, 0, 7);
    });
    context.fill();
  }
  for (const [x, y, label] of own ? rows.slice(-own) : []) {
    context.beginPath();
    context.arc(place(x), size - place(y), 4.5, 0, 7);
    context.fillStyle = classes[label];
    context.fill();
    context.strokeStyle = paper;
    context.lineWidth = 1.5;
    context.stroke();
  }
}

/** A cross, where the keyboard points to. */
export function cross(context, size, [x, y], reach) {
  const [a, b] = [((x + reach) / (2 * reach)) * size, size - ((y + reach) / (2 * reach)) * size];
  context.strokeStyle = css("--ink");
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(a - 9, b), context.lineTo(a + 9, b), context.moveTo(a, b - 9), context.lineTo(a, b + 9);
  context.stroke();
}

/**
 * Lines over the epochs.
 * @param {HTMLCanvasElement} canvas
 * @param {number[]} epochs where the values are.
 * @param {{values: number[], colour: string, band?: number[], wide?: boolean}[]} lines
 * @param {{end: number, log?: boolean, least?: number, words: string}} axis
 */
export function curves(canvas, epochs, lines, { end, log = false, least = 0, words }) {
  const { context, width, height } = fitted(canvas), [left, right, top, bottom] = [46, 8, 24, 20];
  context.clearRect(0, 0, width, height);
  if (!epochs.length) return;
  context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const all = lines.flatMap(({ values, band }) => values.map((v, i) => v + (band ? band[i] : 0))).filter(Number.isFinite);
  const scale = log ? (v) => Math.log10(Math.max(v, least)) : (v) => v;
  let low = log ? scale(Math.max(least, Math.min(...all, 1e9))) : 0, high = all.length ? scale(Math.max(...all)) : 1;
  low = log ? Math.floor(low) : low;
  high = log ? Math.max(Math.ceil(high), low + 1) : Math.max(2, high * 1.08);
  const x = (epoch) => left + (epoch / Math.max(end, 1)) * (width - left - right);
  const y = (v) => height - bottom - ((scale(v) - low) / (high - low)) * (height - top - bottom);
  const ticks = log
    ? Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i))
    : Array.from({ length: Math.floor(high) + 1 }, (_, i) => i).filter((i) => i % Math.ceil(high / 4) === 0);
  context.strokeStyle = css("--line");
  context.fillStyle = css("--muted");
  context.lineWidth = 1;
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const tick of ticks) {
    context.beginPath(), context.moveTo(left, y(tick)), context.lineTo(width - right, y(tick)), context.stroke();
    context.fillText(tick >= 1 ? tick.toLocaleString("en-GB") : String(tick), left - 6, y(tick));
  }
  context.textBaseline = "alphabetic";
  context.textAlign = "left";
  context.fillText(words, 0, 10);
  for (const share of [0, 0.5, 1]) {
    context.textAlign = share === 1 ? "right" : share ? "center" : "left";
    const epoch = Math.round(share * end);
    context.fillText(share ? epoch.toLocaleString("en-GB") : "epoch 0", x(epoch), height - 5);
  }
  context.lineJoin = "round";
  for (const { values, colour: ink, band, wide } of lines) {
    context.strokeStyle = context.fillStyle = css(ink);
    if (band) {
      context.beginPath();
      epochs.forEach((_, i) => context.lineTo(x(epochs[i]), y(values[i] + band[i])));
      [...epochs.keys()].reverse().forEach((i) => context.lineTo(x(epochs[i]), y(Math.max(0, values[i] - band[i]))));
      context.globalAlpha = 0.18;
      context.fill();
      context.globalAlpha = 1;
    }
    context.lineWidth = wide ? 2 : 1.5;
    context.beginPath();
    epochs.forEach((_, i) => context.lineTo(x(epochs[i]), y(values[i])));
    context.stroke();
  }
}
