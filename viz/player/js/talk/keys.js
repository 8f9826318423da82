// The keys of a talk, as speakers and their clickers know them.

// [what they do, in words, the keys]. The list of keys on the stage is made of it.
const KEYS = [
  ["next", "next stop, then next scene", "→ ↓ Space PageDown N"],
  ["back", "back", "← ↑ Shift+Space PageUp P Backspace"],
  ["first", "first scene", "Home"],
  ["last", "last scene", "End"],
  ["ask", "all scenes; then the number of one and Enter. Or its digits at once", "O G"],
  ["black", "black screen", "B . V"],
  ["numbers", "a tile in its numbers, then phase by phase", "Z"],
  ["fullScreen", "full screen", "F"],
  ["speaker", "speaker's window", "S"],
  ["begin", "from the first scene", "F5"],
  ["resume", "from this scene", "Shift+F5"],
  ["escape", "close what is open, then end the talk", "Esc"],
  ["help", "this list", "?"],
];
const NAMES = { ArrowRight: "→", ArrowLeft: "←", ArrowDown: "↓", ArrowUp: "↑", " ": "Space", Escape: "Esc" };
const ACTIONS = new Map(KEYS.flatMap(([action, , keys]) => keys.split(" ").map((key) => [key, action])));
const REPEATS = new Set(["next", "back"]);

export const HELP = KEYS.map(([, words, keys]) => [keys, words]);

// A key as the list above names it. Letters count in either case; Shift counts where it makes another key.
function nameOf({ key, shiftKey }) {
  const name = NAMES[key] ?? (key.length === 1 ? key.toUpperCase() : key);
  return shiftKey && ACTIONS.has(`Shift+${name}`) ? `Shift+${name}` : name;
}

// Take the keys of the window until the signal. `press(action, name)` is called for a key that is pressed,
// and returns whether it was of use. A focused button keeps Space and Enter, a link Enter.
export function takeTalkKeys(press, signal) {
  const pressed = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const name = nameOf(event);
    const [target] = event.composedPath();
    if (["Space", "Enter"].includes(name) && target.matches?.(name === "Enter" ? "button, a" : "button"))
      return;
    const action = ACTIONS.get(name);
    const isHeld = event.repeat && !REPEATS.has(action);
    if (isHeld ? !action : !press(action, name)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  window.addEventListener("keydown", pressed, { capture: true, signal });
}
