"""Every citation in code and on pages is in the list of sources, and each source is cited."""

import ast
import io
import re
import tokenize

from kernels.references import REFERENCES
from tests import ROOT

MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
CITATION = re.compile(
    rf"\b(?!(?:{MONTHS})\b)(?:[^\W\d_a-z][\w’'-]*|et al\.),? \(?(?:19\d\d|20[0-3]\d)\b(?!-\d)"
)
"""A capitalised word or "et al.", then a year. Months, and dates such as 2026-11-21, are not citations."""
KEYS = tuple(source.key for source in REFERENCES)
SOURCES = [
    path
    for folder in ("kernels", "viz")
    for suffix in ("py", "js", "toml")
    for path in sorted((ROOT / folder).rglob(f"*.{suffix}"))
    if path.stem != "references"
]


def python_texts(source: str) -> list[str]:
    """Its strings, parts of f-strings, and last all comments as one text."""
    nodes = ast.walk(ast.parse(source))
    texts = [str(node.value) for node in nodes if isinstance(node, ast.Constant)]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [*texts, " ".join(token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT)]


def unresolved(text: str) -> list[str]:
    """Citations in `text` that are not a key of the list, such as "Dao 2024" or a lone "Lin 2026"."""
    flat = re.sub(r"[\s*/]+", " ", text)
    return [
        match.group()
        for match in CITATION.finditer(flat)
        if not re.sub(r",? \(?(\d{4})$", r" \1", flat[: match.end()].replace("&", "and")).endswith(KEYS)
    ]


def test_every_citation_resolves():
    found = {}
    for path in SOURCES:
        source = path.read_text()
        texts = python_texts(source) if path.suffix == ".py" else [source]
        found[path] = [each for text in texts for each in unresolved(text)]
    assert not {path: citations for path, citations in found.items() if citations}


def test_a_source_that_is_not_in_the_list_is_noticed_and_one_of_the_list_or_a_date_is_not():
    for text in ("as Smith 2020 says", "(Dao, 2024)", "Smith et al. (1999)", "Staats\n  2021"):
        assert unresolved(text), text
        source = "".join(f"# {line}\n" for line in text.split("\n"))
        assert unresolved(python_texts(source)[-1]), text
    known = ["Dao et al. (2022)", "Dao, 2023", "Chu, Liu and\n    Lin 2026", "Milakov & Gimelshein (2018)"]
    for text in (*known, "13 March 2026", "NVIDIA H200, 2026-11-21", "LENGTH, 2048"):
        assert not unresolved(text), text
