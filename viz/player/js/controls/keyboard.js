// Which keys of a page a player or duel takes. A page has one; a notebook gives each a frame of its own.

const FIELDS = "input, textarea, select";
const WIDGETS = "[role=slider], [role=listbox], [role=tablist], [role=radiogroup], [role=combobox]";
const PRESSED = "button, summary, [role=button], [role=menuitem], [role=tab]"; // Space is theirs

// Space is the player's again once a button was clicked; one that was reached and pressed by keys keeps it.
const giveBack = ({ target, detail }) => detail > 0 && target.closest?.(PRESSED)?.blur();

// The owner (with root, slider and transport) takes the keys until the function that is returned is called.
export function takeKeys(owner) {
  const listening = new AbortController();
  const options = { signal: listening.signal };
  owner.root.addEventListener("click", giveBack, options);
  document.addEventListener("keydown", (event) => handleKey(owner, event), options);
  return () => listening.abort();
}

// Somebody who types in a field, or moves another widget of the page, is left alone.
function handleKey(owner, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.composedPath()[0];
  if (target instanceof HTMLElement && target !== owner.slider) {
    const isOwn = owner.root.contains(target);
    const isField = target.isContentEditable || target.matches(FIELDS);
    if (isField && !(isOwn && event.key === "Escape")) return; // which closes the panel around it
    if (target.closest(PRESSED) && event.key === " ") return; // presses it
    if (!isOwn && target.closest(WIDGETS)) return;
  }
  const action = owner.action?.(event.key, event) ?? owner.transport.action(event.key);
  if (!action) return;
  event.preventDefault();
  event.stopPropagation();
  action();
}
