"""One HTML page that needs no other file and no server: of the player here, of a talk in `talk/data.py`.

Imports no streamlit, so that a notebook can use it too.
"""

import html
import json
from pathlib import Path
from typing import Any

from viz.player.modules import one_script


def style_sheets(*names: str) -> str:
    """Files of the folder of style sheets, one after the other: a later one overrules."""
    folder = Path(__file__).parent / "css"
    return "\n".join((folder / f"{name}.css").read_text(encoding="utf-8") for name in names)


CSS = style_sheets("player", "controls", "tile", "lanes", "sizes")
MOUNT = '<div class="fa-player" role="group" tabindex="-1"></div>'

State = dict[str, str]
"""What is remembered of a player, in its own words.

Of one run: "step" is "37" after 37 steps, "37.2" in the second phase of the next one, "gpu:12" at moment 12
of all programs at once; "unit" is "phase" or "program" if it is not "tile"; "row" is the head and number of
the row that was picked, "2.195"; "open" is "tile" while a tile is shown in its numbers; "lanes" is "open"
while the lanes of an SM are shown. Of two runs: "place" is "steps:37" or "race:120". "plays" makes a player
start by itself, phase by phase and slowly, unless the reader wants less motion, and "plain" folds its
details; neither is given back.
"""


def export_html(data: dict, state: State | None = None, style: str = "body { padding: 12px; }") -> str:
    """The player on `player_data(...)` or `duel_data(...)` as a page; `style` is added to its own."""
    body = MOUNT + json_element("run", {"run": data, "state": state or {}})
    return html_page(data["title"], f"{CSS}\n{style}", body, "page.js")


def html_page(title: str, style: str, body: str, entry: str) -> str:
    """A page that runs the module `entry` of the player once `body` is there."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 0; font-family: system-ui, sans-serif; background: Canvas; }}
{style}</style></head>
<body>{body}
<script type="module">
{one_script(entry)}</script></body></html>
"""


def json_element(name: str, value: Any) -> str:
    """A value for the page's script, which finds it by its name."""
    # "</script" would end the element early, and "<!--" would keep it from ending
    text = json.dumps(value).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'
