"""One HTML page that needs no other file and no server: of the player here, of a talk in `talk/data.py`.

Imports no streamlit, so that a notebook can use it too.
"""

import base64
import functools
import html
import json
import posixpath
import re
from pathlib import Path
from string import Template
from typing import Any

FOLDER = Path(__file__).parent / "js"
PAGE = Template(Path(__file__).with_name("page.html").read_text("utf-8"))
ICON = Path(__file__).parents[1] / "assets" / "icon.svg"
IMPORT = re.compile(r'^import \{(?P<names>[^}]*)\} from "(?P<path>\.\.?/(?:\w+/)*\w+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:(?:async )?function|class|const) (?P<name>\w+))", re.MULTILINE)
REFUSED = re.compile(r"^(?:import|export (?!default )).*", re.MULTILINE)


@functools.cache
def one_script(entry: str) -> str:
    """The module `entry` with everything that it imports: a component and an exported page take one script.

    Each module becomes a function of its own, so that only what it exports is seen outside. It runs after
    the modules that it imports. Accepted are `import { a, b } from "./folder/file.js";`, also with "../", and
    `export` before a function (async or not), class or const. Raises ValueError for everything else, so that
    what the browser runs is what the files say.
    """
    exported: dict[str, list[str]] = {}
    parts: list[str] = []
    _add(entry, (), exported, parts)
    return "\n".join(parts)


def _add(file: str, importers: tuple[str, ...], exported: dict[str, list[str]], parts: list[str]) -> None:
    """Append a module, by its path in the folder of scripts, to `parts`, after those that it imports."""
    if file in importers:
        raise ValueError(f"{' -> '.join((*importers, file))} is a circle of imports")
    if file in exported:
        return
    text = (FOLDER / file).read_text(encoding="utf-8")
    for match in IMPORT.finditer(text):
        imported = _imported(file, match)
        _add(imported, (*importers, file), exported, parts)
        missing = set(_names(match)) - set(exported[imported])
        if missing:
            raise ValueError(f"{file} imports {sorted(missing)}, which {imported} does not export")

    def as_variables(match: re.Match[str]) -> str:
        return f"const {{ {', '.join(_names(match))} }} = {_variable(_imported(file, match))};\n"

    body = IMPORT.sub(as_variables, text)
    exported[file] = [match["name"] for match in EXPORT.finditer(body)]
    body = EXPORT.sub("", body)
    if refused := REFUSED.search(body):
        raise ValueError(f"{file}: {refused[0]!r} is not accepted; see {Path(__file__).name}")
    if importers:
        body = f"const {_variable(file)} = (() => {{\n{body}return {{ {', '.join(exported[file])} }};\n}})();"
    parts.append(body)


def _imported(file: str, match: re.Match[str]) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(file), match["path"]))


def _names(match: re.Match[str]) -> list[str]:
    return [name.strip() for name in match["names"].split(",") if name.strip()]


def _variable(file: str) -> str:
    return re.sub(r"\W", "_", file)


def style_sheets(*names: str) -> str:
    """Files of the folder of style sheets, one after the other: a later one overrules."""
    folder = Path(__file__).parent / "css"
    return "\n".join((folder / f"{name}.css").read_text(encoding="utf-8") for name in names)


def _font_face() -> str:
    """The font of a page on disk, with its licence: a part of Source Sans, as `.ci/font.py` makes it."""
    file = Path(__file__).parent / "css" / "stage_font.woff2"
    licence = file.with_suffix(".licence.txt").read_text(encoding="utf-8")
    data = base64.b64encode(file.read_bytes()).decode()
    source = f"url(data:font/woff2;base64,{data})"
    return (
        f'/* {licence} */\n@font-face {{ font-family: "Stage Sans"; font-weight: 400 700; src: {source}; }}'
    )


CSS = style_sheets("player", "controls", "lanes", "sizes")
MOUNT = '<div class="fa-player" role="group" tabindex="-1"></div>'

State = dict[str, str]
"""What is remembered of a player, in its own words.

Of one run: "step" is "37" after 37 steps, "37.2" in the second phase of the next one, "gpu:12" at moment 12
of all programs at once; "unit" is "phase" or "program" if it is not "tile"; "row" is the head and number of
the row that was picked, "2.195"; "open" is "tile" while a tile is shown in its numbers; "lanes" is "open"
while the lanes of an SM are shown. Of two runs: "place" is "bytes:120". "plays" makes a player
start by itself, phase by phase and slowly, unless the reader wants less motion, and "plain": ""
unfolds its details; neither is given back.
"""


def export_html(data: dict, state: State | None = None, style: str = "body { padding: 12px; }") -> str:
    """The player on `player_data(...)` or `duel_data(...)` as a page; `style` is added to its own."""
    body = MOUNT + json_element("run", {"run": data, "state": state or {}})
    return html_page(data["title"], f"{CSS}\n{style}", body, "page.js")


def html_page(title: str, style: str, body: str, entry: str, description: str = "") -> str:
    """A page that runs the module `entry` of the player once `body` is there."""
    icon = base64.b64encode(ICON.read_bytes()).decode()  # else a browser asks its host for one
    about, name = html.escape(description or title), html.escape(title)
    given = {"font": _font_face(), "style": style, "body": body, "script": one_script(entry)}
    return PAGE.substitute(title=name, description=about, icon=icon, **given)


def json_element(name: str, value: Any) -> str:
    """A value for the page's script, which finds it by its name."""
    # "</script" would end the element early, and "<!--" would keep it from ending
    text = json.dumps(value).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{text}</script>'
