// Streamlit makes as many steps of the history as it writes values of widgets, or none. Here one act of the
// reader is one step, if it changes what was chosen; where a player stands is none.
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
