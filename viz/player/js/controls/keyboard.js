// Which player or duel of a page the keyboard moves, and which keys it takes.

const FIELDS = "input, textarea, select";
const WIDGETS = "[role=slider], [role=listbox], [role=tablist], [role=radiogroup], [role=combobox]";

let active = null;

// The owner (with root, slider and transport) takes the keys from now on, until another one is touched. The
// function that is returned ends that, and gives them back to the one that had them before.
export function takeKeys(owner) {
  const listening = new AbortController();
  const options = { signal: listening.signal };
  const takeOver = () => (active = owner);
  const before = active;
  owner.root.addEventListener("pointerdown", takeOver, options);
  owner.root.addEventListener("focusin", takeOver, options);
  document.addEventListener("keydown", (event) => handleKey(owner, event), options);
  takeOver();
  return () => {
    listening.abort();
    if (active === owner) active = before;
  };
}

// Somebody who types in a field, or moves another widget of the page, is left alone.
function handleKey(owner, event) {
  if (active !== owner || event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.composedPath()[0];
  if (target instanceof HTMLElement && target !== owner.slider) {
    if (target.isContentEditable || target.matches(FIELDS)) return;
    if (target.tagName === "BUTTON" && event.key === " ") return; // presses the button
    if (!owner.root.contains(target) && target.closest(WIDGETS)) return;
  }
  const action = owner.action?.(event.key) ?? owner.transport.action(event.key);
  if (!action) return;
  event.preventDefault();
  event.stopPropagation();
  action();
}
