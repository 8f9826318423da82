// Entry of the site. It plays the run that lies in its page, or the one that the address names after "#". Any
// other run is a script, since a page from disk may load no other kind of file; it is loaded if asked for.

import { element, onAppearance, write } from "./controls/dom.js";
import { kindOf } from "./kinds.js";
import { ChartView } from "./talk/chart.js";

const { name: first, run: firstRun, film, charts } = JSON.parse(document.getElementById("site").textContent);
const [root, title, status] = ["player", "title", "status"].map((name) => document.getElementById(name));
const runs = { [first]: firstRun }; // data by name, or their promise
const arrive = {};
const choices = document.querySelectorAll(".site-choice");
const views = charts.map(() => new ChartView());
const moves = !window.matchMedia("(prefers-reduced-motion: reduce)").matches;
let [player, asked] = [null, ""];

window.recording = (name, data) => arrive[name](data);

function load(name) {
  runs[name] ??= new Promise((resolve, reject) => {
    arrive[name] = resolve;
    const script = element("script", { src: `runs/${name.replace(/[^\w.-]/g, "")}.js` });
    script.addEventListener("error", () => {
      delete runs[name]; // it may come another time
      reject(new Error(`The recording “${name}” did not load. Choose one of those that are listed below.`));
    });
    document.head.append(script);
  });
  return runs[name];
}

// Two runs, one run, or lanes alone, in a state.
function show(name, data, state) {
  const remember = (now) => history.replaceState(null, "", `#${new URLSearchParams({ run: name, ...now })}`);
  player?.destroy();
  root.replaceChildren();
  root.className = "fa-player";
  root.setAttribute("aria-label", data.title);
  write(title, data.title);
  player = new (kindOf(data))(root, remember);
  player.load(data, state);
  for (const choice of choices) {
    choice.value = name;
    if (choice.selectedIndex < 0) choice.value = "";
  }
  for (const link of document.links) link.ariaCurrent = link.hash === `#run=${name}` ? "true" : null;
}

async function follow() {
  const { run, ...state } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  if (!run && player) return; // another place of this page
  const name = (asked = run ?? first);
  const begins = !state.step && !state.place;
  const plays = begins && film && name === first; // the film of the app's first visit
  const isOpen = player !== null; // else the page opens with it
  if (isOpen) title.scrollIntoView();
  try {
    write(status, run ? "Loading the recording …" : "");
    const data = await load(name);
    const both = data.runs && (await Promise.all(data.runs.map((each) => (each.ranks ? each : load(each)))));
    if (asked !== name) return; // another one was asked for meanwhile
    show(name, both ? { ...data, runs: both } : data, plays ? { plays } : state);
    write(status, "");
    if (isOpen) root.focus({ preventScroll: true });
    if (begins && moves && player.transport?.playing === false) player.transport.toggle();
  } catch (error) {
    write(status, error.message);
    if (!player) show(first, firstRun, {});
  }
}

document.querySelectorAll(".site-chart").forEach((figure, i) => figure.prepend(views[i].root));
views.forEach((view, i) => view.draw(charts[i], charts[i].series.length));
onAppearance(() => player?.load(player.shown));
for (const choice of choices)
  choice.addEventListener("change", () => choice.value && (location.hash = `run=${choice.value}`));
window.addEventListener("hashchange", follow);
follow();
