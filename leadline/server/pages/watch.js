// The page of `leadline watch`: all runs of a directory, or one of them, as the server says it.

import { Overview } from "./overview.js";
import { RunView } from "./run.js";
import { follow } from "./stream.js";

const get = (id) => document.getElementById(id);
const state = get("connection");
let about, source = null, shown = null;

const overview = () => (overview.made ??= new Overview(about));
const view = () => (view.made ??= new RunView());

/** Say what is wrong, or nothing. */
function notice(text) {
  if (get("notice").textContent !== text) get("notice").textContent = text;
  get("notice").hidden = !text;
}

function gone(isThere) {
  notice(isThere ? "" : "The directory is gone. What is shown was read before.");
}

function listen(address, heard) {
  source?.close();
  source = follow(address, heard, state);
}

function showAll(alone) {
  shown = null;
  get("one").hidden = true;
  listen("all", {
    all: (said) => {
      gone(said.is_there);
      if (alone && said.runs.length === 1 && !said.tables.length && !location.hash) {
        showOne(said.runs[0].run, true);
        return;
      }
      alone = alone && !said.runs.length && !said.tables.length; // one that begins here soon
      get("all").hidden = false;
      get("title").textContent = about.folder;
      document.title = "Leadline: watch";
      if (said.is_there) overview().draw(said);
    },
  });
}

function showOne(run, alone = false) {
  shown = run;
  get("all").hidden = true;
  get("back").hidden = alone;
  view().clear();
  listen(`one?run=${encodeURIComponent(run)}`, {
    run: (said) => {
      gone(true);
      get("one").hidden = false;
      requestAnimationFrame(() => view().draw(said));
    },
    gone: ({ folder }) => (folder ? gone(false) : notice("This run is gone. What is shown was read before.")),
  });
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) notice("There is no such run in the directory.");
  });
}

function route() {
  const asked = new URLSearchParams(location.hash.slice(1)).get("run");
  if (asked !== null && asked !== shown) showOne(asked);
  else if (asked === null) showAll(overview.made === undefined);
}

window.addEventListener("hashchange", route);
about = await (await fetch("about")).json();
route();
