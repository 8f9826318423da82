// What stands right of the grid: the kernel's source with the lines of the phase lit, and the curves of one
// row.

import { canvas, element, write } from "../controls/dom.js";
import { drawRows } from "./rows.js";
import { recordedSeries } from "../run/series.js";
import { rowHint, rowWords } from "../run/words.js";

const heading = (words) => element("div", { class: "fa-part" }, [words]);

export class Aside {
  constructor() {
    this.source = element("div", { class: "fa-source", tabindex: "0", "aria-label": "kernel source" });
    [this.title, this.hint] = [element("span"), element("span", { class: "fa-row-hint" })];
    this.rows = canvas("rows", "state of one row over the steps");
    this.node = element("div", { class: "fa-right" }, [
      this.source,
      element("div", { class: "fa-head" }, [this.title, this.hint]),
      this.rows,
    ]);
    this.isShown = true; // on a talk's stage it may have no place, and then costs nothing
  }

  // `picked` is the row that is told; `opened`: of a tile in its numbers.
  draw({ model, palette }, at, picked, opened) {
    if (!this.isShown) return;
    drawRows(this.rows, model, palette, at, picked);
    write(this.title, rowWords(model, at, picked));
    write(this.hint, rowHint(model, at, picked, opened));
    this.light(model, at);
  }

  light(model, { kernel: index, phase }) {
    const kernel = model.kernels[index];
    if (kernel !== this.kernel) this.fill(model, kernel, index);
    if (phase === this.phase) return;
    this.phase = phase;
    const isLit = (each) => each.phase === phase?.name;
    for (const each of this.lines) each.line.classList.toggle("fa-lit", isLit(each));
    const first = this.lines.find(isLit);
    if (!first) return;
    // of a kernel in several files, the one at the top is that of the lit lines
    this.nameFile(kernel.source.further_files.length ? first.file : kernel.source.file);
    this.source.scrollTop = first.line.offsetTop - this.source.clientHeight / 3; // in the upper third
  }

  nameFile(file) {
    this.file.title = `${this.whose}${file}`;
    write(this.file, this.file.title);
  }

  fill(model, kernel, index) {
    const { kernels } = model;
    const { source, each, name } = kernel;
    Object.assign(this, { kernel, phase: undefined, lines: [] }); // lines: {line, phase, file}
    this.whose = kernels.length > 1 ? `${index + 1}/${kernels.length} ${name} · ` : "";
    this.file = element("div", { class: "fa-file" }); // it stays in view
    this.nameFile(source.file);
    this.source.replaceChildren(this.file);
    this.source.scrollTop = 0;
    const titles = [
      source.lines[1].length ? "before the loop" : "once per query tile",
      each,
      "after the loop",
    ];
    let from = source.file;
    for (const [i, lines] of source.lines.entries()) {
      if (lines.length) this.source.append(heading(titles[i]));
      for (const [number, code, phase, file] of lines) {
        if (file !== from && source.further_files.includes(file)) {
          this.source.append(heading(file.split("/").pop()));
          from = file;
        }
        const numbered = element("span", { class: "fa-number", title: file }, [String(number)]);
        const line = element("div", { class: "fa-line" }, [numbered, element("code", {}, [code])]);
        this.lines.push({ line, phase, file });
        this.source.append(line);
      }
    }
    const curves = recordedSeries(model, index);
    const told = curves.map((curve) => `${curve.name}: ${curve.title}${curve.log ? ", log scale" : ""}`);
    this.rows.title = told.join("\n");
  }
}
