"""A table of a talk's file: its fields are taken one by one, and what is wrong with them is written down."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Sequence
from typing import Any

MOST_LEVELS = 32
"""Most lists and tables in each other; those of a talk are six."""
_TOO_LARGE = "it has a whole number of more than 64 bits; expected numbers from -2^63 to 2^63 - 1"
_TOO_DEEP = f"its lists and tables lie too deep in each other; expected at most {MOST_LEVELS} levels"


def finding(where: str, words: str) -> str:
    """One line of an InvalidTalk: `words` name the field, what was given and what is accepted."""
    return f"{where}, {words.rstrip('.')}."


def toml_values(text: str) -> dict:
    """The values of a TOML text. Raises ValueError for all else, and for what cannot be said in a message."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # int() takes no number of thousands of digits
        raise ValueError(_TOO_LARGE) from None
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    _expect_plain(values, MOST_LEVELS)
    return values


def _expect_plain(value: Any, levels: int) -> None:
    """Raises ValueError for too many levels, and for a whole number that TOML does not have."""
    if levels < 0:
        raise ValueError(_TOO_DEEP)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise ValueError(_TOO_LARGE)
    if isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            _expect_plain(each, levels - 1)


class Table:
    """A TOML table that is read field by field. What is wrong is collected in `findings`."""

    def __init__(self, values: dict, where: str, findings: list[str] | None = None) -> None:
        self.values, self.where = dict(values), where
        self.findings: list[str] = [] if findings is None else findings
        self.known: list[str] = []

    def expect(self, holds: bool, field: str, given: Any, accepted: str) -> bool:
        """Write down a finding unless `holds`; returns `holds`."""
        if not holds:
            shown = "nothing is given" if given in (None, "", []) else json.dumps(given, default=str)[:60]
            self.findings.append(finding(self.where, f"{field}: {shown}; expected {accepted}"))
        return holds

    def take(self, field: str, kind: type | tuple, accepted: str, default: Any = None) -> Any:
        """The value of a field if it has that type, else the default."""
        self.known.append(field)
        given = self.values.pop(field, None)
        if given is None:
            return default
        takes_bool = bool in (kind if isinstance(kind, tuple) else (kind,))
        fits = isinstance(given, kind) and (takes_bool or not isinstance(given, bool))
        return given if self.expect(fits, field, given, accepted) else default

    def text(self, field: str, required: bool = False, default: str = "") -> str:
        """A text; without spaces at its ends."""
        count = len(self.findings)
        given = self.take(field, str, "a text in quotes", default).strip()
        if required and not given and count == len(self.findings):
            self.expect(False, field, given, "a text in quotes")
        return given

    def number(self, field: str, default: float) -> float:
        """A positive number."""
        given = self.take(field, (int, float), "a number above 0", default)
        fits = 0 < given < math.inf
        return float(given) if self.expect(fits, field, given, "a number above 0") else default

    def one_of(self, field: str, options: Sequence[str], default: str) -> str:
        """One of some words."""
        given = self.text(field, default=default)
        return (
            given if self.expect(given in options, field, given, f"one of {', '.join(options)}") else default
        )

    def refuse_others(self) -> None:
        """Write down every field that nobody took."""
        for field in self.values:
            words = f"{field}: this field is not known; known are {', '.join(self.known)}"
            self.findings.append(finding(self.where, words))
