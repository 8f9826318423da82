// Streamlit calls a component again when the appearance changes, but runs the page again only if it is told.
let shown = "";
export default function ({ parentElement, setTriggerValue }) {
  const background = getComputedStyle(parentElement.host).getPropertyValue("--st-background-color");
  if (shown && shown !== background) setTriggerValue("changed", background);
  shown = background;
}
