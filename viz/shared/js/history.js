// Streamlit makes a step of its own for each widget whose value it writes to the URL or takes out of it. A
// link from Learn to the player made ten, and from each of them Back led to a URL that made more.
export default function () {
  if (window.oneStepPerAct) return;
  window.oneStepPerAct = true;
  let isActOfReader = false;
  for (const type of ["pointerdown", "keydown", "popstate"])
    window.addEventListener(type, () => (isActOfReader = type !== "popstate"), true);
  const push = history.pushState.bind(history);
  history.pushState = (...given) => {
    if (isActOfReader) push(...given);
    else history.replaceState(...given);
    isActOfReader = false;
  };
}
