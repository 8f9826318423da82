"""Every source that kernels/ and viz/ cite, from references.toml. Elsewhere a source is named by its key."""

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Reference:
    """One source. A citation says its `key`: author and year, or a name if nobody or no year is given."""

    key: str
    authors: str
    title: str
    where: str
    why: str
    """What this project takes from it, in one line."""
    url: str = ""
    """A public address; "" if none is known."""

    @property
    def full(self) -> str:
        return f"{self.key}, {self.title}, {self.where}"


@dataclass(frozen=True)
class Link:
    """An implementation or a text to read on with; nothing in this project rests on it."""

    name: str
    url: str
    why: str


_FILE = tomllib.loads((Path(__file__).parent / "references.toml").read_text(encoding="utf-8"))
REFERENCES = tuple(Reference(**source) for source in _FILE["source"])
READ_ON = tuple(Link(**link) for link in _FILE["read_on"])


def reference(key: str) -> Reference:
    """The source with this key. Raises KeyError, which names the key, if there is none."""
    return _BY_KEY[key]


_BY_KEY = {source.key: source for source in REFERENCES}
