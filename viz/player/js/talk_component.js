// Entry of the talk's Streamlit component. All is sent once.

import { element } from "./controls/dom.js";
import { Speaker } from "./talk/speaker.js";
import { Talk } from "./talk/talk.js";

const mounts = new WeakMap(); // {shown, calls} of each parent element

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
    mount.shown = notes ? new Speaker(root, talk, notes) : new Talk(root, talk, speakerUrl);
    // the address in full, since Streamlit's page has another base
    const allTalks = element("a", { href: location.pathname }, ["All talks, and their files"]);
    mount.shown.curtain?.append(element("p", {}, [allTalks]));
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
