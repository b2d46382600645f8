// Numbers in words, as the report writes them, and elements made of text alone.

/** Three digits, or all that stand before the point. */
export function digits(value, n = 3) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  let text;
  if (value === 0) text = "0";
  else if (size >= 1e-4 && size < 1e9) {
    const places = Math.min(8, Math.max(0, n - 1 - Math.floor(Math.log10(size))));
    text = value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
  } else text = value.toExponential(n - 1);
  return text.replace("-", "−");
}

/** A whole number, or one as it is given. */
export function plain(value) {
  if (typeof value === "number") return Number(value.toPrecision(6)).toLocaleString("en").replace("-", "−");
  return String(value);
}

export function duration(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Whatever a file says, it is shown as text. */
export function element(name, attributes = {}, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...inside);
  return made;
}

/** A table with its heads; the first column names the row. */
export function table(heads, rows, numbers = heads.map((_, i) => i > 0)) {
  const head = heads.map((text, i) => element("th", { scope: "col", class: numbers[i] ? "number" : "words" }, text));
  const body = rows.map((cells) =>
    element("tr", {}, ...cells.map((cell, i) =>
      i ? element("td", { class: numbers[i] ? "number" : null }, cell)
        : element("th", { scope: "row", class: numbers[i] ? "number" : null }, cell))));
  return element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
}
