// Wheel, drag, pinch and click on the lanes.

const CLICK = 4; // pixels that a pointer may move during a click
const WHEEL_ZOOM = 0.0016;

// `view` has `canvas`, `zoomAt(factor, x)`, `panBy(pixels)`, `click(x, y)` and `hover(x, y)`; x and y are CSS
// pixels of the canvas. A wheel zooms while the canvas has the focus or Ctrl is held (a pinch on a touchpad):
// else it moves the page.
export function takeGestures(view) {
  const { canvas } = view;
  const pointers = new Map();
  let moved = 0;
  const place = ({ clientX, clientY }) => {
    const { left, top } = canvas.getBoundingClientRect();
    return { x: clientX - left, y: clientY - top };
  };
  canvas.addEventListener(
    "wheel",
    (event) => {
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (!sideways && !event.ctrlKey && !canvas.matches(":focus")) return;
      event.preventDefault();
      if (sideways) view.panBy(event.deltaX);
      else view.zoomAt(Math.exp(event.deltaY * WHEEL_ZOOM * (event.ctrlKey ? 4 : 1)), place(event).x);
    },
    { passive: false },
  );
  const on = (name, listener) => canvas.addEventListener(name, listener);
  on("pointerdown", (event) => {
    pointers.set(event.pointerId, place(event));
    moved = pointers.size > 1 ? Infinity : 0;
  });
  on("pointermove", (event) => {
    if (!event.buttons) pointers.delete(event.pointerId); // it was let go outside
    const [before, now] = [pointers.get(event.pointerId), place(event)];
    if (!before) {
      view.hover(now.x, now.y);
      return;
    }
    moved += Math.abs(now.x - before.x);
    if (moved > CLICK) canvas.setPointerCapture(event.pointerId);
    const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    pointers.set(event.pointerId, now);
    const apart = ({ x }) => Math.max(8, Math.abs(x - other.x));
    if (other) view.zoomAt(apart(before) / apart(now), (now.x + other.x) / 2);
    else if (moved > CLICK) view.panBy(before.x - now.x);
  });
  const release = (event) => {
    const isClick = event.type === "pointerup" && pointers.size === 1 && moved <= CLICK;
    pointers.delete(event.pointerId);
    const { x, y } = place(event);
    if (isClick) view.click(x, y);
  };
  ["pointerup", "pointercancel"].forEach((name) => on(name, release));
}
