// Entry of a Streamlit component without a picture: it carries questions of the stage to the app, and answers
// back. The stage is another component of the same page, which a question must not draw anew.

let listening = new AbortController();

export default function (component) {
  const { data, setTriggerValue } = component;
  listening.abort();
  listening = new AbortController();
  const ask = ({ detail }) => setTriggerValue("asked", detail);
  window.addEventListener("flash-attention-ask", ask, { signal: listening.signal });
  if (data.answer) window.dispatchEvent(new CustomEvent("flash-attention-answer", { detail: data.answer }));
}
