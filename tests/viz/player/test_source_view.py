"""The kernel's source beside the grid, as a reader sees it."""

import pytest

from viz.player.modules import FOLDER

pytestmark = pytest.mark.browser


def test_below_the_name_of_the_file_begins_a_whole_line(run, data):
    style = (FOLDER.parent / "css" / "player.css").read_text()
    script = """(() => {
      const view = new source_view.SourceView();
      const style = document.head.appendChild(document.createElement("style"));
      style.textContent = given.style;
      document.body.append(view.node);
      Object.assign(view.node.style, { height: "150px", width: "300px" });
      const m = model.makeModel(given.data);
      const seen = m.kernels[0].phases.flat().map((phase) => {
        view.show(m, { kernel: 0, phase });
        const end = view.node.firstChild.getBoundingClientRect().bottom;
        const lines = [...view.node.querySelectorAll(".fa-line")].map((line) => line.getBoundingClientRect());
        const lit = view.node.querySelector(".fa-lit").getBoundingClientRect();
        const isCut = ({ top, bottom }) => top < end - 0.5 && bottom > end + 0.5;
        const { bottom } = view.node.getBoundingClientRect();
        return [view.node.scrollTop > 0, lines.some(isCut), end - 1 < lit.top && lit.top < bottom];
      });
      view.node.remove();
      style.remove();
      return seen;
    })()"""
    seen = run(script, {"data": data, "style": style})
    assert any(scrolled for scrolled, *_ in seen)
    assert not any(cut for _, cut, _ in seen)
    assert all(in_sight for *_, in_sight in seen)
