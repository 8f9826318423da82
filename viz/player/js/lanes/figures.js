// The figures of the runs as a table. On a narrow page what a figure is stands below its name.

import { element } from "../controls/dom.js";

export function figureTable({ runs, figures }) {
  const head = element("tr", {}, [
    element("th", { scope: "col" }, ["Figure"]),
    ...runs.map(({ title, provenance }) =>
      element("th", { scope: "col" }, [title, element("small", {}, [provenance])]),
    ),
    element("th", { scope: "col" }, ["What it is"]),
  ]);
  const rows = figures.map(({ name, values, words }) =>
    element("tr", {}, [
      element("th", { scope: "row" }, [name, element("small", { class: "fa-lane-said" }, [words])]),
      ...values.map((value) => element("td", {}, [value])),
      element("td", {}, [words]),
    ]),
  );
  return element("table", { class: "fa-lane-figures" }, [
    element("thead", {}, [head]),
    element("tbody", {}, rows),
  ]);
}
