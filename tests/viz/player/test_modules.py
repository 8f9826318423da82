"""The modules as one script."""

import posixpath

import pytest

from tests.viz.player.runs import FILES
from viz.player.html_page import FOLDER, IMPORT, one_script

PAPER = ("talk/print.js",)
"""Modules of the exported talk alone."""
TALK = tuple(path for path in FILES.values() if path.startswith("talk/"))
"""Modules that a player alone does not need."""
RANKS = tuple(
    path for path in FILES.values() if "ranks" in path or path in ("kinds.js", "lanes/lanes_alone.js")
)
"""Modules that no talk needs."""
FLOORS = ("vendor", "run", "controls", "grid", "tile", "lanes", "ranks", "save", "", "talk")
"""Folders of the modules, "" for those outside of one. Each imports only those before it, and its own."""

pytestmark = pytest.mark.browser


def test_a_script_holds_every_module_once():
    left_out = {
        "talk_component.js": (*PAPER, *RANKS),
        "component.js": TALK,
        "page.js": TALK,
    }
    for entry, without in left_out.items():
        for path in FILES.values():
            variable = path.replace("/", "_").replace(".", "_")
            count = one_script(entry).count(f"const {variable} = (() => {{")
            assert count == (path not in without), (entry, path)


@pytest.mark.parametrize("path", FILES.values())
def test_imports_go_down_the_floors(path):
    floor = FLOORS.index(posixpath.dirname(path))
    imports = IMPORT.findall((FOLDER / path).read_text(encoding="utf-8"))
    folders = [posixpath.dirname(posixpath.normpath(posixpath.join(path, "..", to))) for _, to in imports]
    assert all(FLOORS.index(folder) <= floor for folder in folders)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.js": 'import { b } from "./b.js";\n', "b.js": "export const c = 1;\n"}, r"a.js imports \['b'\]"),
        ({"a.js": 'import * as b from "./b.js";\n'}, "is not accepted"),
        (
            {"a.js": 'import { a } from "./b.js";\n', "b.js": 'import { b } from "./a.js";\n'},
            "circle of imports",
        ),
        ({"a.js": "export { b };\n"}, "is not accepted"),
        ({"a.js": 'import { b } from "./c/b.js";\n', "c/b.js": 'import { d } from "../a.js";\n'}, "circle"),
    ],
)
def test_what_one_script_cannot_hold_is_refused(files, message, tmp_path, monkeypatch):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("viz.player.html_page.FOLDER", tmp_path)
    with pytest.raises(ValueError, match=message):
        one_script.__wrapped__("a.js")
