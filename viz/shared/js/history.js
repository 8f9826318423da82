// Streamlit makes a step of its own for each widget whose value it writes to the URL or takes out of it. A
// link from Learn to the player made ten, and from each of them Back led to a URL that made more. Where a
// player stands is no step at all: Back leads to what was chosen before.
const PLACE = ["step", "unit", "row", "open", "lanes", "place"]; // as viz/player/places.py has them

function choices(url) {
  const { pathname, searchParams } = new URL(url, location);
  PLACE.forEach((name) => searchParams.delete(name));
  searchParams.sort();
  return `${pathname}?${searchParams}`;
}

export default function () {
  if (window.oneStepPerAct) return;
  window.oneStepPerAct = true;
  let isActOfReader = false;
  for (const type of ["pointerdown", "keydown", "popstate"])
    window.addEventListener(type, () => (isActOfReader = type !== "popstate"), true);
  const [push, replace] = [history.pushState, history.replaceState].map((write) => write.bind(history));
  history.pushState = history.replaceState = (...given) => {
    const isStep = isActOfReader && choices(given[2] ?? "") !== choices(location);
    isActOfReader &&= !isStep;
    return isStep ? push(...given) : replace(...given);
  };
}
