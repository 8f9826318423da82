export default function ({ setStateValue }) {
  requestAnimationFrame(() => requestAnimationFrame(() => setStateValue("done", true)));
}
