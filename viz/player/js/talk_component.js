// Entry of the talk's Streamlit component. All is sent once; only "What if?" asks the server again.

import { Speaker } from "./talk/speaker.js";
import { Talk } from "./talk/talk.js";

const mounts = new WeakMap(); // {shown, calls} of each parent element

// The stage's side of live_component.js.
class Server {
  constructor() {
    this.listening = new AbortController();
    const { signal } = this.listening;
    window.addEventListener("flash-attention-answer", ({ detail }) => this.onAnswer(detail), { signal });
  }

  ask(question) {
    window.dispatchEvent(new CustomEvent("flash-attention-ask", { detail: question }));
  }

  destroy() {
    this.listening.abort();
  }
}

function speakerUrl() {
  const url = new URL(location.href);
  url.searchParams.set("speaker", "true");
  url.hash = "";
  return url.href;
}

export default function (component) {
  const { data, parentElement } = component;
  const { talk, notes } = data;
  const mount = mounts.get(parentElement) ?? { shown: null, calls: 0 };
  mounts.set(parentElement, mount);
  if (mount.shown?.data.id !== talk.id) {
    mount.shown?.destroy();
    const root = parentElement.querySelector(".fa-talk");
    root.replaceChildren();
    const server = new Server();
    mount.shown = notes ? new Speaker(root, talk, notes, server) : new Talk(root, talk, speakerUrl, server);
  } else mount.shown.useTheme(); // it runs again with another theme
  // A rerun may clean up just before the next call: the talk lives on then.
  const call = ++mount.calls;
  return () =>
    setTimeout(() => {
      if (call !== mount.calls) return;
      mount.shown.destroy(); // its keys are the page's again
      mounts.delete(parentElement);
    });
}
