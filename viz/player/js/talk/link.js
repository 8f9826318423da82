// Keeps the windows of a talk in step. Each window holds the newest state that it knows of; a state is newer
// if its version is higher, and of two with one version that of the larger window id. So all windows end with
// the same.
//
// It speaks over a BroadcastChannel, and also to the window that opened it or that it opened, since some
// browsers have no channel between files on disk. A message that comes twice changes nothing.

export class Link {
  // `receive` is called with a state that another window made. `standing` is the state that this window opens
  // with, if its address names one: it is told to windows that know of none, and gives way to any other.
  constructor(name, receive, standing = null) {
    this.name = name;
    this.receive = receive;
    this.id = Math.random().toString(36).slice(2);
    this.known = { version: 0, from: "", state: standing };
    this.windows = new Set(window.opener ? [window.opener] : []);
    this.listening = new AbortController();
    const options = { signal: this.listening.signal };
    this.channel = window.BroadcastChannel ? new BroadcastChannel(`talk ${name}`) : null;
    this.channel?.addEventListener("message", (event) => this.hear(event.data), options);
    window.addEventListener(
      "message",
      (event) => this.windows.has(event.source) && this.hear(event.data),
      options,
    );
    // a hidden tab may have missed something
    document.addEventListener("visibilitychange", () => document.hidden || this.hello(), options);
    this.hello();
  }

  destroy() {
    this.listening.abort();
    this.channel?.close();
  }

  hello() {
    this.post({ kind: "hello" });
  }

  // Tell the others a state of this window.
  send(state) {
    this.known = { version: this.known.version + 1, from: this.id, state };
    this.post({ kind: "state", ...this.known });
  }

  // Something that is shown for a moment and not kept, such as where the laser points.
  sendPassing(passing) {
    this.post({ kind: "passing", passing });
  }

  post(message) {
    const said = { ...message, talk: this.name };
    this.channel?.postMessage(said);
    const origin = location.origin === "null" || location.protocol === "file:" ? "*" : location.origin;
    for (const other of this.windows) if (!other.closed) other.postMessage(said, origin);
  }

  hear(message) {
    if (message?.talk !== this.name) return;
    if (message.kind === "hello" && this.known.state) this.post({ kind: "state", ...this.known });
    if (message.kind === "passing") this.onPassing?.(message.passing);
    if (message.kind !== "state") return;
    const { version, from, state } = message;
    const isNewer =
      version > this.known.version || (version === this.known.version && from > this.known.from);
    if (!isNewer && this.known.state) return;
    this.known = { version, from, state };
    this.receive(state);
  }
}
