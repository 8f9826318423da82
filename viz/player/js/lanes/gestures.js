// Wheel, drag, pinch and click on the lanes.

const CLICK = 4; // pixels that a pointer may move during a click
const WHEEL_ZOOM = 0.0016;

// `view` has `canvas`, and by CSS pixels `zoomAt(factor, x)`, `panBy(pixels)`, `hover(x, y)`, `hit(x, y)`.
// A wheel zooms if the canvas has the focus or Ctrl is held (a pinch on a touchpad): else it moves the page.
export function takeGestures(view) {
  const { canvas } = view;
  const pointers = new Map(); // those that are down, and how far right
  let moved = 0;
  const on = (name, listener) => canvas.addEventListener(name, listener, { passive: false });
  on("wheel", (event) => {
    const { deltaX, deltaY, ctrlKey, offsetX } = event;
    const sideways = Math.abs(deltaX) > Math.abs(deltaY);
    if (!sideways && !ctrlKey && !canvas.matches(":focus")) return;
    event.preventDefault();
    if (sideways) view.panBy(deltaX);
    else view.zoomAt(Math.exp(deltaY * WHEEL_ZOOM * (ctrlKey ? 4 : 1)), offsetX);
  });
  on("pointerdown", ({ pointerId, offsetX }) => {
    pointers.set(pointerId, offsetX);
    moved = pointers.size > 1 ? Infinity : 0;
  });
  on("pointermove", ({ pointerId, buttons, offsetX: now, offsetY }) => {
    if (!buttons) pointers.delete(pointerId); // it was let go outside
    if (!pointers.has(pointerId)) return view.hover(now, offsetY);
    const before = pointers.get(pointerId);
    moved += Math.abs(now - before);
    if (moved > CLICK) canvas.setPointerCapture(pointerId);
    pointers.set(pointerId, now);
    const [, other] = [...pointers].find(([id]) => id !== pointerId) ?? [];
    const apart = (x) => Math.max(8, Math.abs(x - other));
    if (other !== undefined) view.zoomAt(apart(before) / apart(now), (now + other) / 2);
    else if (moved > CLICK) view.panBy(before - now);
  });
  on("pointerup", ({ pointerId, offsetX, offsetY }) => {
    const isClick = pointers.size === 1 && moved <= CLICK;
    pointers.delete(pointerId);
    if (isClick) view.pick(view.hit(offsetX, offsetY));
  });
  on("pointercancel", ({ pointerId }) => pointers.delete(pointerId));
}
