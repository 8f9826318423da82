// The kernel's source beside the grid, with the lines of the phase lit.

import { element } from "../controls/dom.js";

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
      this.lines = fillSource(this.node, model, at.kernel);
      this.shownKernel = at.kernel; // once it is shown
      this.litPhase = undefined;
    }
    if (at.phase === this.litPhase) return isOther;
    this.litPhase = at.phase;
    let first = null;
    for (const each of this.lines) {
      const lit = each.phase === at.phase?.name;
      each.line.classList.toggle("fa-lit", lit);
      if (lit) first ??= each;
    }
    if (first) {
      nameFile(this.node, model, at.kernel, first.file);
      this.scrollTo(first.line);
    }
    return isOther;
  }

  // A line in the upper third. Below the name of the file begins a whole line, not the rest of one.
  scrollTo({ offsetTop }) {
    const { clientHeight, firstChild, children } = this.node;
    const covered = firstChild.offsetHeight;
    const wanted = offsetTop - clientHeight / 3 + covered;
    const top = [...children].slice(1).findLast((each) => each.offsetTop <= wanted);
    this.node.scrollTop = top ? Math.max(0, top.offsetTop - covered) : 0;
  }
}

// The file at the top, which stays in view: of a kernel in several files, that of the lit lines.
function nameFile(node, model, index, file) {
  const { source, name } = model.kernels[index];
  const number = model.kernels.length > 1 ? `${index + 1}/${model.kernels.length} ${name} · ` : "";
  const title = `${number}${source.further_files.length ? file : source.file}`;
  node.firstChild.textContent = node.firstChild.title = title;
}

// The kernel's lines; returns [{line, phase, file}] for highlighting.
function fillSource(node, model, index) {
  const { source, each } = model.kernels[index];
  const lines = [];
  const outside = source.lines[1].length ? "before the loop" : "once per query tile";
  const headings = [outside, each, "after the loop"];
  node.replaceChildren(element("div", { class: "fa-file" }));
  nameFile(node, model, index, source.file);
  node.scrollTop = 0;
  let from = source.file;
  source.lines.forEach((part, i) => {
    if (part.length) node.append(element("div", { class: "fa-part" }, [headings[i]]));
    for (const [lineNumber, words, phase, file] of part) {
      if (file !== from && source.further_files.includes(file)) {
        node.append(element("div", { class: "fa-part" }, [file.split("/").pop()]));
        from = file;
      }
      const numbered = element("span", { class: "fa-number", title: file }, [String(lineNumber)]);
      const line = element("div", { class: "fa-line" }, [numbered, element("code", {}, [words])]);
      lines.push({ line, phase, file });
      node.append(line);
    }
  });
  return lines;
}
