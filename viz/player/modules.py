"""Serves the player's ES modules as one script: Streamlit's component and the exported page take only one.

Each module becomes a function of its own, so that only what it exports is seen outside. It runs after the
modules that it imports. Accepted are `import { a, b } from "./folder/file.js";`, also with "../", and
`export` before a function (async or not), class or const. Everything else is refused, so that what the
browser runs is what the files say.
"""

import functools
import posixpath
import re
from pathlib import Path

FOLDER = Path(__file__).parent / "js"
IMPORT = re.compile(r'^import \{(?P<names>[^}]*)\} from "(?P<path>\.\.?/(?:\w+/)*\w+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:(?:async )?function|class|const) (?P<name>\w+))", re.MULTILINE)
REFUSED = re.compile(r"^(?:import|export (?!default )).*", re.MULTILINE)


@functools.cache
def one_script(entry: str) -> str:
    """The module `entry` with everything that it imports. Raises ValueError for what is not accepted."""
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
    """The file that a module imports, as a path in the folder of scripts."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(file), match["path"]))


def _names(match: re.Match[str]) -> list[str]:
    return [name.strip() for name in match["names"].split(",") if name.strip()]


def _variable(file: str) -> str:
    return re.sub(r"\W", "_", file)
