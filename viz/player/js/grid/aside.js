// What stands right of the grid: the kernel's source with the lines of the phase lit, and the curves of one
// row.

import { canvas, element, write } from "../controls/dom.js";
import { drawRows } from "./rows.js";
import { recordedSeries } from "../run/series.js";
import { SourceView } from "./source_view.js";
import { curveWords, rowHint, rowWords } from "../run/words.js";

export class Aside {
  constructor() {
    this.source = new SourceView();
    [this.title, this.hint] = [element("span"), element("span", { class: "fa-row-hint" })];
    this.rows = canvas("rows", "state of one row over the steps");
    this.node = element("div", { class: "fa-right" }, [
      this.source.node,
      element("div", { class: "fa-head" }, [this.title, this.hint]),
      this.rows,
    ]);
    this.isShown = true; // on a talk's stage it may have no place, and then costs nothing
  }

  // Another run.
  forget() {
    this.source.forget();
  }

  // `picked` is the row that is told; `opened`: of a tile in its numbers.
  draw({ model, palette }, at, picked, opened) {
    if (!this.isShown) return;
    drawRows(this.rows, model, palette, at, picked);
    write(this.title, rowWords(model, at, picked));
    write(this.hint, rowHint(model, at, picked, opened));
    if (this.source.show(model, at)) this.rows.title = curveWords(recordedSeries(model, at.kernel));
  }
}
