// The game on the page: it asks for the next frame when the last one is drawn, and the server trains meanwhile.
import { FULL, border, cross, curves, field, forget, points, recolour, whenResized } from "./paint.js";
import { addressOf, fill, make, read, settingsOf } from "./settings.js";
import { digits } from "./words.js";

const $ = (id) => document.getElementById(id);
const WORDS = {
  mixture: "Blue or red is what it predicts, all depths together; pale is unsure; the line is where it cannot decide.",
  noise: "Uncertainty that stays even with the weights and the depth known: the classes overlap, or lie side by side.",
  weights: "Uncertainty because the weights are not known for sure: few points, or none nearby.",
  depth: "Uncertainty because the depth is not known for sure: shallow and deep networks say different things here.",
};
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const dark = matchMedia("(prefers-color-scheme: dark)");

let offered, game, rules, frame, running = false, looping = false;
let rows = [], train = [], story = 0, pointsSeen = 0;
let cursor = null, wanted = null, turn = Promise.resolve();

/** Something that the server refuses, in its own words. */
class Refusal extends Error {
  constructor(status, said) {
    super(said);
    this.status = status;
  }
}

async function ask(path, body = {}) {
  let answer;
  try {
    answer = await fetch(path, { method: "POST", body: JSON.stringify(body) });
  } catch {
    throw new Refusal(0, "The server does not answer: it may have ended. Start `leadline play` again.");
  }
  say(true);
  if (answer.ok) return answer;
  const said = answer.headers.get("content-type")?.includes("json") ? (await answer.json()).said : await answer.text();
  throw new Refusal(answer.status, said);
}

const askGame = (what, body) => ask(`games/${game}/${what}`, body);

/** One thing after the other: what it gives, or throws. */
function inTurn(act) {
  const mine = turn.then(act);
  turn = mine.catch(() => {});
  return mine;
}

function say(answers) {
  $("state").dataset.state = answers ? "live" : "lost";
  const text = answers ? "connected" : "the server does not answer";
  if ($("state").textContent !== text) $("state").textContent = text;
}

function notice(text) {
  $("notice").hidden = !text;
  $("notice").textContent = text ?? "";
}

/** What went wrong, on the page; a game that has ended begins again. */
async function failed(error) {
  pause();
  if (!(error instanceof Refusal)) throw error;
  if (error.status === 0) say(false);
  notice(error.message);
  if (error.status === 404 && rules) {
    await begin(rules);
    notice(`${error.message} This is a new one with the same settings.`);
  }
}

async function begin(given) {
  const answer = await (await ask("games", given)).json();
  [game, rules] = [answer.game, answer.rules];
  navigator.locks?.request(`game ${game}`, () => new Promise(() => {})); // held as long as this window has it
  sessionStorage.setItem("game", game);
  [rows, story, pointsSeen] = [[], 0, 0];
  settle();
  await look("still");
}

/** The settings that the game has now are those of the form and of the address. */
function settle() {
  fill($("settings"), rules, offered);
  const address = addressOf(rules, offered);
  if (location.hash !== address) history.replaceState(null, "", address || location.pathname);
  $("undo").disabled = $("clear").disabled = !rules.own.length;
}

/** A frame from the server, unpacked; it trains for so many epochs before. */
async function fetchFrame(detail, epochs = 0) {
  const seen = { story, rows: rows.length, points: pointsSeen };
  const bytes = await (await askGame("frame", { detail, epochs, ...seen })).arrayBuffer();
  const length = new DataView(bytes).getUint32(0, true), n = 4 + length;
  const said = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length)));
  const size = said.grid ** 2;
  said.planes = Object.fromEntries(said.planes.map((name, i) => [name, new Uint8Array(bytes, n + i * size, size)]));
  rows = [...rows.slice(0, said.known), ...said.rows];
  story = said.story;
  said.detail = detail;
  if (said.train) [train, pointsSeen] = [said.train, said.points];
  return said;
}

const look = (detail, epochs) => fetchFrame(detail, epochs).then(show);
const nextPaint = () => new Promise(requestAnimationFrame);
const pauseOf = (ms) => new Promise((done) => setTimeout(done, ms));

/** Draw a frame, and note how long it took from its last epoch to here. */
function show(shown) {
  frame = shown;
  draw();
  requestAnimationFrame(() => { // the next one: this frame is on the screen now
    const start = shown.trained_at * 1000 - performance.timeOrigin;
    performance.measure("epoch to pixel", { start: Math.max(0, start), end: performance.now() });
  });
}

function draw() {
  if (!frame) return;
  const { planes, grid, q, p, noted } = frame, view = document.querySelector("[name=view]:checked").value;
  const { context, width } = field($("plane"), planes[view], grid, view);
  border(context, width, planes.mixture, grid);
  points(context, width, train, rules.own.length, offered.reach);
  $("plane").dataset.detail = frame.detail;
  if (cursor && document.activeElement === $("plane")) cross(context, width, cursor, offered.reach);
  depths(q, p, planes, grid);
  $("epoch").textContent = frame.epoch;
  $("end").textContent = frame.end.toLocaleString("en-GB");
  [$("progress").max, $("progress").value] = [frame.end, frame.epoch];
  for (const name of ["free_energy", "expected_nll", "weight_kl", "depth_kl"]) $(name).textContent = digits(noted[name]);
  $("accuracy").textContent = `${frame.accuracy.toFixed(1)} %`;
  const mean = q.reduce((sum, mass, depth) => sum + mass * depth, 0);
  $("mean").textContent = mean.toFixed(2);
  $("std").textContent = Math.sqrt(q.reduce((sum, mass, depth) => sum + mass * (depth - mean) ** 2, 0)).toFixed(2);
  for (const part of ["noise", "weights", "depth"]) $(`mean-${part}`).textContent = frame.means[part].toFixed(2);
  $("view-words").textContent = WORDS[view] + (view in FULL ? ` Full colour: ${FULL[view].toFixed(2)} nats.` : "");
  const every = Math.ceil(rows.length / 600), thin = rows.filter((_, i) => i % every === 0 || i === rows.length - 1);
  const column = (i) => thin.map((row) => row[i]), epochs = column(0);
  const lines = [["--depth", 4], ["--weights", 3], ["--data", 2], ["--ink", 1]];
  curves($("energy"), epochs, lines.map(([colour, i]) => ({ values: column(i), colour, wide: i === 1 })),
    { end: frame.end, log: true, least: 0.1, words: "nats" });
  curves($("deepening"), epochs, [{ values: column(5), band: column(6), colour: "--depth", wide: true }],
    { end: frame.end, words: "expected depth E[L] ± sd" });
  const over = frame.epoch >= frame.end;
  $("run").disabled = $("step").disabled = over;
  $("run").textContent = running ? "Pause" : over ? "Done" : frame.epoch ? "Go on" : "Start";
}

const percent = (mass, short) => short ? `${Math.round(100 * mass)}%` : `${(100 * mass).toFixed(mass < 0.0995 ? 1 : 0)} %`;

/** A place for every depth: bars of q(L) before p(L), its regions, which fade with its mass, and its numbers. */
function depths(q, p, planes, grid) {
  const list = $("depths");
  while (list.children.length > q.length) {
    forget(list.lastChild.querySelector("canvas"));
    list.lastChild.remove();
  }
  while (list.children.length < q.length) {
    const one = document.createElement("li");
    one.innerHTML = '<div class="bars" aria-hidden="true"><div class="bar p"></div><div class="bar q"></div></div>' +
      '<canvas class="tile" aria-hidden="true"></canvas><p><b></b> <span></span></p>';
    list.append(one);
  }
  const many = q.length > 8;
  list.classList.toggle("many", many);
  const top = Math.max(0.65, ...q, ...p);
  q.forEach((mass, depth) => {
    const one = list.children[depth], tile = one.querySelector("canvas");
    one.querySelector("b").textContent = many && depth ? depth : `L = ${depth}`;
    one.querySelector(".q").style.height = `${(100 * mass) / top}%`;
    one.querySelector(".p").style.height = `${(100 * p[depth]) / top}%`;
    one.querySelector("span").textContent = mass ? percent(mass, many) : "–";
    tile.style.opacity = mass ? 0.25 + 0.75 * Math.min(1, mass / 0.3) : 0.35;
    if (mass) {
      const { context, width } = field(tile, planes[depth], grid, "mixture");
      border(context, width, planes[depth], grid);
    } else tile.getContext("2d").clearRect(0, 0, tile.width, tile.height);
  });
}

function aloud() {
  const best = frame.q.indexOf(Math.max(...frame.q));
  $("aloud").textContent = `Epoch ${frame.epoch} of ${frame.end}: expected depth ${$("mean").textContent}, most probable ` +
    `${best}; ${frame.accuracy.toFixed(0)} % of fresh points right.`;
}

async function run() {
  running = true;
  sessionStorage.setItem("running", "yes");
  notice();
  draw();
  if (looping) return; // paused and started again before the frame in hand had come
  looping = true;
  try {
    while (running) {
      await flow();
      await inTurn(() => look("still"));
    }
    pause();
    aloud();
  } catch (error) {
    await failed(error);
  } finally {
    looping = false;
  }
}

/** Frames, until there is a pause or an end: the next one is asked for before the last is drawn. */
async function flow() {
  const one = () => inTurn(() => fetchFrame("moving", Number($("speed").value)));
  let coming = one(), said = performance.now();
  while (coming) {
    const now = await coming;
    if (now.epoch >= now.end) running = false;
    coming = running ? one() : null;
    await nextPaint();
    show(now);
    if (calm.matches) await pauseOf(500);
    if (performance.now() - said > 10_000) [said] = [performance.now(), aloud()];
  }
}

function pause() {
  running = false;
  sessionStorage.removeItem("running");
  draw();
}

/** Have it done between two frames, and look at what came of it. */
const act = (what) => inTurn(async () => {
  await what();
  if (!running) await look("still");
}).catch(failed);

/** The settings shall be these; of several in a row the last. */
function change(to) {
  const waiting = wanted;
  wanted = to;
  if (!waiting) act(async () => {
    const now = wanted;
    wanted = null;
    notice();
    try {
      rules = (await (await askGame("rules", now)).json()).rules;
    } catch (error) {
      if (error.status !== 400) throw error;
      notice(error.message);
      return;
    }
    if (!wanted) settle();
  });
}

const withOwn = (own) => change({ ...rules, ...wanted, own });
const mine = () => (wanted ?? rules).own;

function addPoint([x, y]) {
  withOwn([...mine(), [x, y, Number(document.querySelector("[name=pen]:checked").value)]]);
}

function place(event) {
  const box = $("plane").getBoundingClientRect(), { reach } = offered;
  const at = (share) => Number((Math.min(1, Math.max(0, share)) * 2 * reach - reach).toFixed(2));
  return [at((event.clientX - box.left) / box.width), at(1 - (event.clientY - box.top) / box.height)];
}

function steer(event) {
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }, { reach } = offered;
  const by = event.shiftKey ? 0.25 : 0.05;
  cursor ??= [0, 0];
  if (moves[event.key]) {
    cursor = cursor.map((a, i) => Number(Math.min(reach, Math.max(-reach, a + by * moves[event.key][i])).toFixed(2)));
    $("aloud").textContent = `x ${cursor[0]}, y ${cursor[1]}`;
  } else if (event.key === " " || event.key === "Enter") addPoint(cursor);
  else return;
  event.preventDefault();
  draw();
}

/** Give the user a file. */
async function keep(what, name, words) {
  $("kept").textContent = words;
  $(what).disabled = true;
  try {
    const answer = await askGame(what, { dark: dark.matches });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await answer.blob());
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    $("kept").textContent = `Saved as ${name}.`;
  } catch (error) {
    $("kept").textContent = "";
    await failed(error);
  } finally {
    $(what).disabled = false;
  }
}

function listen() {
  $("run").addEventListener("click", () => (running ? pause() : run()));
  $("step").addEventListener("click", () => {
    running = false;
    inTurn(() => look("still", 1)).then(aloud).catch(failed);
  });
  $("again").addEventListener("click", () => act(() => askGame("again")));
  for (const when of ["input", "change"]) $("settings").addEventListener(when, (event) => {
    if ((event.target.type === "number") !== (when === "change")) return; // a number is one when it is done
    const to = { ...read($("settings"), offered), own: mine() };
    fill($("settings"), to, offered, event.target);
    change(to);
  });
  $("settings").addEventListener("submit", (event) => event.preventDefault());
  $("views").addEventListener("change", draw);
  $("undo").addEventListener("click", () => withOwn(mine().slice(0, -1)));
  $("clear").addEventListener("click", () => withOwn([]));
  $("plane").addEventListener("click", (event) => addPoint(place(event)));
  $("plane").addEventListener("keydown", steer);
  for (const name of ["focus", "blur"]) $("plane").addEventListener(name, draw);
  $("picture").addEventListener("click", () => keep("picture", "leadline-play.png", "Drawing …"));
  $("film").addEventListener("click", () => keep("film", "leadline-play.gif", "It is played again and drawn: some seconds …"));
  $("link").addEventListener("click", async () => {
    const copied = await navigator.clipboard?.writeText(location.href).then(() => "Copied. ", () => "");
    $("kept").textContent = `${copied ?? ""}What stands behind the # are the settings, for any other leadline play, too.`;
  });
  addEventListener("hashchange", () => inTurn(() => begin(settingsOf(location.hash))).catch(failed));
  whenResized(draw);
  dark.addEventListener("change", () => [recolour(), draw()]);
  setInterval(() => running || inTurn(() => askGame("here")).catch(failed), 1000 * offered.every);
}

/** The game that this window had before it was loaded again, unless the address asks for another one. */
async function goOn(given) {
  game = sessionStorage.getItem("game");
  if (!game) return false;
  const free = await new Promise((tell) => navigator.locks
    ? navigator.locks.request(`game ${game}`, { ifAvailable: true }, (lock) => [tell(lock !== null), lock && new Promise(() => {})][1])
    : tell(true));
  if (!free) return false; // another window was made from this one
  try {
    const answer = await (await askGame("rules")).json();
    if (location.hash && location.hash !== addressOf(answer.rules, offered)) return false;
    ({ rules } = answer);
  } catch (error) {
    if (error.status !== 404) throw error;
    return false;
  }
  settle();
  await look("still");
  return true;
}

async function load() {
  recolour();
  offered = await (await fetch("choices")).json();
  make($("settings"), offered);
  const given = settingsOf(location.hash), again = sessionStorage.getItem("running");
  try {
    if (!(await goOn(given))) await begin(given);
    else if (again) setTimeout(run);
  } catch (error) {
    if (error.status !== 400) throw error;
    await begin({});
    notice(`${error.message} So it begins with the usual settings.`);
  }
  listen();
}

load().catch(failed);
