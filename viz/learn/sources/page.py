"""The last page: the slips of the sources with the right line beside each, and the reading list."""

from kernels.references import READ_ON, REFERENCES
from viz.shared.words import Words

WORDS = Words(__file__)


def show() -> None:
    sources = (
        {"source": each, "title": f"[{each.title}]({each.url})" if each.url else each.title}
        for each in REFERENCES
    )
    links = "\n".join(f"- [{link.name}]({link.url}): {link.why}" for link in READ_ON)
    WORDS.draw("start", sources=WORDS.rows("sources", sources), links=links)
