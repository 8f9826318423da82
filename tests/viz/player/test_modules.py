"""The modules as one script."""

import pytest

from tests.viz.player.runs import FILES
from viz.player.modules import one_script

PAPER = ("print",)
"""Modules of the exported talk alone."""
APP = ("server",)
"""Modules of a talk in the app alone."""
TALK = (
    *PAPER,
    *APP,
    "chart",
    "what_if",
    "link",
    "overlays",
    "presenter",
    "scenes",
    "screen",
    "speaker",
    "talk",
    "talk_keys",
)
"""Modules that a player alone does not need."""

pytestmark = pytest.mark.browser


def test_a_script_holds_every_module_once(run):
    left_out = {"talk_page.js": APP, "talk_component.js": PAPER, "component.js": TALK, "page.js": TALK}
    for entry, without in left_out.items():
        for name in FILES:
            count = one_script(entry).count(f"const {name}_js = (() => {{")
            assert count == (name not in without), (entry, name)


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
    ],
)
def test_what_one_script_cannot_hold_is_refused(files, message, tmp_path, monkeypatch):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("viz.player.modules.FOLDER", tmp_path)
    with pytest.raises(ValueError, match=message):
        one_script.__wrapped__("a.js")
