// A second player or duel in the state of a first one, beside the page, that nobody sees or steers. A film is
// made of it, so that keys and another theme meanwhile do not change its pictures.

// `close()` of the twin takes it away.
export function twinOf(owner) {
  const root = owner.root.cloneNode(false);
  const isFull = owner.root.matches(":fullscreen");
  root.classList.add("fa-twin");
  root.classList.toggle("fa-full", isFull);
  root.inert = true;
  root.setAttribute("aria-hidden", "true");
  root.style.width = `${owner.root.offsetWidth}px`;
  if (isFull) root.style.height = `${owner.root.offsetHeight}px`;
  owner.root.after(root);
  const twin = new owner.constructor(root);
  twin.dropKeys();
  twin.transport.speed = owner.transport.speed;
  // the data are a copy: what is derived from them is then the twin's own too
  twin.load(structuredClone(owner.shown), owner.state());
  if (owner.opened) twin.opened.predicts = owner.opened.predicts;
  twin.save.node.hidden = owner.save.node.hidden; // in full screen the picture has the room that it leaves
  twin.save.says.textContent = owner.save.says.textContent;
  twin.save.show(true);
  twin.draw();
  twin.close = () => {
    twin.destroy();
    root.remove();
  };
  return twin;
}
