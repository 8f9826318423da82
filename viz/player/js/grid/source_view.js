// The kernel's source beside the grid, with the lines of the phase lit.

import { element, write } from "../controls/dom.js";

const heading = (words) => element("div", { class: "fa-part" }, [words]);

export class SourceView {
  constructor() {
    this.node = element("div", { class: "fa-source", tabindex: "0", "aria-label": "kernel source" });
  }

  // Another run may have another source.
  forget() {
    this.shownKernel = null;
  }

  // Returns whether another kernel is shown than before.
  show(model, at) {
    const isOther = at.kernel !== this.shownKernel;
    if (isOther) {
      this.fill(model, at.kernel);
      this.shownKernel = at.kernel; // once it is shown
      this.litPhase = undefined;
    }
    if (at.phase === this.litPhase) return isOther;
    this.litPhase = at.phase;
    const isLit = ({ phase }) => phase === at.phase?.name;
    for (const each of this.lines) each.line.classList.toggle("fa-lit", isLit(each));
    const first = this.lines.find(isLit);
    if (!first) return isOther;
    this.nameFile(first.file);
    this.node.scrollTop = first.line.offsetTop - this.node.clientHeight / 3; // in the upper third
    return isOther;
  }

  // The file at the top, which stays in view: of a kernel in several files, that of the lit lines.
  nameFile(file) {
    this.file.title = `${this.whose}${this.source.further_files.length ? file : this.source.file}`;
    write(this.file, this.file.title);
  }

  fill({ kernels }, index) {
    const { source, each, name } = kernels[index];
    Object.assign(this, {
      source,
      whose: kernels.length > 1 ? `${index + 1}/${kernels.length} ${name} · ` : "",
    });
    const outside = source.lines[1].length ? "before the loop" : "once per query tile";
    this.file = element("div", { class: "fa-file" });
    this.node.replaceChildren(this.file);
    this.nameFile(source.file);
    this.node.scrollTop = 0;
    this.lines = []; // {line, phase, file}
    let from = source.file;
    for (const [i, words] of [outside, each, "after the loop"].entries()) {
      if (source.lines[i].length) this.node.append(heading(words));
      for (const [number, code, phase, file] of source.lines[i]) {
        if (file !== from && source.further_files.includes(file)) {
          this.node.append(heading(file.split("/").pop()));
          from = file;
        }
        const numbered = element("span", { class: "fa-number", title: file }, [String(number)]);
        const line = element("div", { class: "fa-line" }, [numbered, element("code", {}, [code])]);
        this.lines.push({ line, phase, file });
        this.node.append(line);
      }
    }
  }
}
