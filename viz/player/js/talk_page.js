// Entry of the exported talk: its data lie in the page. The address ends in "#speaker" in the speaker's
// window; the audience's window drops the notes before it shows anything.

import { onAppearance } from "./controls/dom.js";
import { paperOf } from "./talk/print.js";
import { Speaker } from "./talk/speaker.js";
import { Talk } from "./talk/talk.js";

const take = (id) => {
  const node = document.getElementById(id);
  node.remove();
  return JSON.parse(node.textContent);
};
const talk = take("talk");
const encoded = take("notes");
const root = document.querySelector(".fa-talk");

const bytes = Uint8Array.from(atob(encoded), (letter) => letter.charCodeAt(0));
const isSpeaker = encoded && location.hash === "#speaker";
const notes = isSpeaker ? JSON.parse(new TextDecoder().decode(bytes)) : [];
const speakerUrl = () => (encoded ? `${location.href.split("#")[0]}#speaker` : "");
const shown = isSpeaker ? new Speaker(root, talk, notes) : new Talk(root, talk, speakerUrl);
onAppearance(() => shown.useTheme());
let paper = null;
window.addEventListener("beforeprint", () => (paper = paperOf(talk, notes)));
window.addEventListener("afterprint", () => paper?.remove());
