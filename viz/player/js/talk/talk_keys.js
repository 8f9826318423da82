// The keys of a talk, as speakers and their clickers know them.

const FIELDS = "input, textarea, select";
const PRESSED_BY = { BUTTON: [" ", "Enter"], A: ["Enter"] }; // the keys that these take themselves

// Key to what it does. Letters count in either case.
const ACTIONS = {
  PageDown: "next",
  " ": "next",
  ArrowRight: "next",
  ArrowDown: "down",
  n: "next",
  PageUp: "back",
  ArrowLeft: "back",
  ArrowUp: "up",
  p: "back",
  Backspace: "back",
  Home: "first",
  End: "last",
  b: "black",
  v: "black",
  ".": "black",
  f: "fullScreen",
  g: "ask",
  o: "overview",
  s: "speaker",
  "?": "help",
  l: "laser",
  w: "whatIf",
  z: "numbers",
  "[": "tileBefore",
  "]": "tileAfter",
  F5: "begin",
  Escape: "escape",
  Enter: "choose",
};

export const HELP = [
  ["→ ↓ Space PageDown N", "next stop, then next scene"],
  ["← ↑ Shift+Space PageUp P", "back"],
  ["Home End", "first scene, last scene"],
  ["G, or digits, then Enter", "go to a scene by its number"],
  ["O", "overview: the arrows pick a scene, Enter goes to it"],
  ["B . V", "black screen"],
  ["L, held", "a dot where the pointer is"],
  ["Z, then [ and ]", "a tile in its numbers, the tile before, the tile after"],
  ["W, then two digits", "what if? another length, head_dim, mask or tile"],
  ["F", "full screen"],
  ["S", "speaker's window"],
  ["F5 Shift+F5", "from the first scene, from this scene"],
  ["Esc", "close what is open, then end the talk"],
  ["?", "this list"],
];

function actionOf(event) {
  const { key } = event;
  if (key === "F5") return event.shiftKey ? "resume" : "begin";
  if (key === " " && event.shiftKey) return "back";
  return ACTIONS[key.length === 1 ? key.toLowerCase() : key];
}

// Take the keys of the window. `does(action)` and `digit(figure)` are called for keys that are pressed,
// `released(action)` for keys that are let go. F5 is caught wherever the focus is: it must not load the talk
// anew.
export function takeTalkKeys({ does, digit, released }) {
  const listening = new AbortController();
  const options = { capture: true, signal: listening.signal };
  const press = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.composedPath()[0];
    const isField = target instanceof HTMLElement && (target.isContentEditable || target.matches(FIELDS));
    if (isField && event.key !== "F5") return;
    if (PRESSED_BY[target.tagName]?.includes(event.key) && !event.shiftKey) return;
    const isDigit = /^\d$/.test(event.key);
    const action = actionOf(event);
    if (!isDigit && !action) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (isDigit) digit(event.key);
    else if (!event.repeat || ["next", "back", "down", "up"].includes(action)) does(action);
  };
  window.addEventListener("keydown", press, options);
  window.addEventListener("keyup", (event) => released(actionOf(event)), options);
  return () => listening.abort();
}
