// What the server says, as it says it; and one line on the page that tells whether it still does.

/**
 * Follow the events at an address.
 * @param {string} address relative to the page.
 * @param {Object<string, function(any): void>} heard what to do with an event, by its name.
 * @param {HTMLElement} state the line; it has a `data-state` of live, lost or closed.
 * @returns {EventSource} which can be closed.
 */
export function follow(address, heard, state) {
  const source = new EventSource(address);
  const say = (name, text) => {
    if (state.dataset.state !== name) {
      state.dataset.state = name;
      state.textContent = text;
    }
  };
  source.addEventListener("open", () => say("live", "connected"));
  source.addEventListener("error", () => say("lost", "the server does not answer"));
  source.addEventListener("closed", () => {
    source.close();
    say("closed", "the server has ended");
  });
  for (const [name, act] of Object.entries(heard)) {
    source.addEventListener(name, (event) => act(JSON.parse(event.data)));
  }
  return source;
}
