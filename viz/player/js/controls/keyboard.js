// Which player or duel of a page the keyboard moves, and which keys it takes.

const FIELDS = "input, textarea, select";
const WIDGETS = "[role=slider], [role=listbox], [role=tablist], [role=radiogroup], [role=combobox]";
const PRESSED = "button, summary, [role=button], [role=menuitem], [role=tab]"; // Space is theirs

const owners = []; // all that live; the last one is moved

// The owner (with root, slider and transport) takes the keys from now on, until another one is touched. The
// function that is returned ends that, and gives them back to the owner that had them last and still lives.
export function takeKeys(owner) {
  const listening = new AbortController();
  const options = { signal: listening.signal };
  const leave = () => owners.includes(owner) && owners.splice(owners.indexOf(owner), 1);
  const takeOver = () => {
    leave();
    owners.push(owner);
  };
  owner.root.addEventListener("pointerdown", takeOver, options);
  owner.root.addEventListener("focusin", takeOver, options);
  owner.root.addEventListener("click", giveBack, options);
  document.addEventListener("keydown", (event) => handleKey(owner, event), options);
  takeOver();
  return () => {
    listening.abort();
    leave();
  };
}

// Space is the player's again once a button was clicked; one that was reached and pressed by keys keeps it.
function giveBack({ target, detail }) {
  if (detail > 0) target.closest?.(PRESSED)?.blur();
}

// Somebody who types in a field, or moves another widget of the page, is left alone.
function handleKey(owner, event) {
  if (owners.at(-1) !== owner || event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.composedPath()[0];
  if (target instanceof HTMLElement && target !== owner.slider) {
    if (target.isContentEditable || target.matches(FIELDS)) return;
    if (target.closest(PRESSED) && event.key === " ") return; // presses it
    if (!owner.root.contains(target) && target.closest(WIDGETS)) return;
  }
  const action = owner.action?.(event.key) ?? owner.transport.action(event.key);
  if (!action) return;
  event.preventDefault();
  event.stopPropagation();
  action();
}
