// The settings of a game: as controls, and after the # of the address.

/** Make the controls, as the server offers them. */
export function make(form, { fields }) {
  for (const one of fields) {
    if (one.name === "own") continue;
    const row = document.createElement("div"), label = document.createElement("label"), id = `set-${one.name}`;
    row.className = "row";
    label.htmlFor = id;
    label.append(one.label);
    const control = document.createElement(one.options ? "select" : "input");
    control.id = control.name = id;
    control.name = one.name;
    if (one.options) for (const [value, words] of one.options) control.add(new Option(words, value));
    else {
      control.type = one.default === null || one.name === "seed" ? "number" : "range";
      [control.min, control.max, control.step] = one.range;
      if (control.type === "number") control.step = "any";
    }
    control.title = one.help;
    if (control.type === "range") {
      const output = document.createElement("output");
      output.htmlFor = id;
      label.append(output);
    }
    row.append(label, control);
    form.querySelector(one.under_way && one.name !== "temperature" ? "#points-settings" : "#network-settings").append(row);
  }
}

/** Have the controls say what the settings are, but for the one that the user is at. */
export function fill(form, settings, { fields, recipes, starting }, but = null) {
  const recipe = recipes[settings.recipe];
  for (const one of fields) {
    const control = form.elements[one.name];
    if (!control) continue;
    const value = settings[one.name] ?? "";
    if (control.type === "range") control.step = value % one.range[2] ? "any" : one.range[2]; // an address may say 7.25
    if (control !== but && control !== document.activeElement) control.value = value;
    if (one.name in recipe) control.placeholder = `the recipe's: ${recipe[one.name]}`;
    if (control.type === "range") {
      const shown = Number(control.value);
      const text = one.name === "noise" ? `${Math.round(100 * shown)} %` : shown.toLocaleString("en-GB");
      form.querySelector(`output[for=${control.id}]`).value = text;
      control.setAttribute("aria-valuetext", text);
    }
  }
  form.elements.start.disabled = !starting.includes(settings.depth);
  if (form.elements.start.disabled) [form.elements.start.value, form.elements.start.placeholder] = ["", "the family has its own"];
}

/** What the controls say. */
export function read(form, { fields, starting }) {
  const said = {};
  for (const { name, options, default: usual } of fields) {
    const control = form.elements[name];
    if (!control) continue;
    if (options) said[name] = options.map(([value]) => value).find((value) => String(value) === control.value);
    else said[name] = control.value === "" ? usual : Number(control.value);
  }
  if (!starting.includes(said.depth)) said.start = null;
  return said;
}

/** What stands behind the address: all that is not as usual. */
export function addressOf(settings, { fields }) {
  const parts = [];
  for (const { name, default: usual } of fields) {
    const value = settings[name];
    if (name === "own" && value.length) parts.push(`own=${value.map((point) => point.join(",")).join(";")}`);
    else if (name !== "own" && value !== usual) parts.push(`${name}=${encodeURIComponent(value)}`);
  }
  return parts.length ? `#${parts.join("&")}` : "";
}

/** The same, read; what is wrong with it is for the server to say. */
export function settingsOf(hash) {
  const number = (text) => (text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text);
  const said = {};
  for (const [name, text] of new URLSearchParams(hash.slice(1))) {
    said[name] = name === "own" ? text.split(";").map((point) => point.split(",").map(number)) : number(text);
  }
  return said;
}
