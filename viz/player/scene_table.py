"""A table of a talk's file: its fields are taken one by one, and what is wrong with them is written down."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any


def finding(where: str, words: str) -> str:
    """One line of an InvalidTalk: `words` name the field, what was given and what is accepted."""
    return f"{where}, {words.rstrip('.')}."


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
