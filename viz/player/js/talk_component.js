// Entry of the talk's Streamlit component. Everything is sent once; nothing that a speaker does asks the
// server, but for "What if?".

import { Server } from "./talk/server.js";
import { Speaker } from "./talk/speaker.js";
import { Talk } from "./talk/talk.js";

const shown = new WeakMap(); // the talk of each parent element

function speakerUrl() {
  const url = new URL(location.href);
  url.searchParams.set("speaker", "true");
  url.hash = "";
  return url.href;
}

export default function (component) {
  const { data, parentElement } = component;
  const { talk, notes } = data;
  const before = shown.get(parentElement);
  if (before?.data.id === talk.id) return undefined;
  before?.destroy();
  const root = parentElement.querySelector(".fa-talk");
  root.replaceChildren();
  shown.set(
    parentElement,
    notes ? new Speaker(root, talk, notes, new Server()) : new Talk(root, talk, speakerUrl, new Server()),
  );
  return undefined;
}
