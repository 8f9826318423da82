"""The chapters of the Learn page, in reading order: each asks one question, and the next one goes on."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass

from viz.learn import after, gradients, ideas, io, kernel, memory, roofline, softmax, sources, tiling


@dataclass(frozen=True)
class Chapter:
    """One question, its answer, and the function that draws the chapter."""

    slug: str
    """Its name in the URL."""
    title: str
    question: str
    idea: str
    """The answer in one sentence, at the end of the chapter."""
    show: Callable[[], None]


CHAPTERS = (
    Chapter(
        "memory",
        "Memory",
        "Two matrix products and a softmax: why is attention slow?",
        "S and P do not fit into the memory of an SM, and moving them to HBM and back takes longer than both "
        "products.",
        memory.show,
    ),
    Chapter(
        "softmax",
        "Softmax",
        "Softmax divides by the sum of a whole row. How can it be computed piece by piece?",
        "One pass is enough if, whenever the largest score so far grows, all that was summed up is "
        "multiplied by exp(old largest − new largest).",
        softmax.show,
    ),
    Chapter(
        "tiling",
        "Tiles",
        "Which parts of attention can be computed tile by tile?",
        "Products split into tiles as they are; softmax does too, if every row keeps m and l.",
        tiling.show,
    ),
    Chapter(
        "kernel",
        "The kernel",
        "What does the GPU really do, step by step?",
        "A program keeps its queries, m, l and acc on the chip, and takes one key tile after the other.",
        kernel.show,
    ),
    Chapter(
        "io",
        "Traffic",
        "How many bytes does each way to compute attention move?",
        "Tiles decide: the more queries a program keeps on the chip, the less often K and V are read.",
        io.show,
    ),
    Chapter(
        "roofline",
        "Roofline",
        "Does a kernel wait for memory, or does it compute as fast as it can?",
        "A kernel with little arithmetic per byte waits for memory, and attention in one kernel moves no S "
        "and no P.",
        roofline.show,
    ),
    Chapter(
        "gradients",
        "Gradients",
        "The backward pass needs P, which was never stored. Where does it come from?",
        "With lse saved, any tile of P can be rebuilt alone; the rest of its row is not needed.",
        gradients.show,
    ),
    Chapter(
        "after",
        "What came after",
        "One query, newer GPUs, 8-bit numbers: what had to change?",
        "Decoding splits the keys, newer GPUs compute products and exponentials at the same time, and 8-bit "
        "numbers are faster but less exact.",
        after.show,
    ),
    Chapter(
        "ideas",
        "Five ideas",
        "Which ideas does all this rest on, and what breaks without one of them?",
        "Fusion, tiling, online softmax, recomputation, lse: exact attention that never stores S.",
        ideas.show,
    ),
    Chapter(
        "sources",
        "Sources",
        "Where is all this from, and what do the sources get wrong?",
        "",
        sources.show,
    ),
)

OLD_SLUGS = {"why": "memory", "tiles": "tiling", "traffic": "io", "summary": "ideas", "errata": "sources"}
OLD_LINKS: dict[tuple[str, str], dict[str, str]] = {
    ("softmax_part", "Without the rescale"): {"softmax_part": "Just add"},
    ("io_view", "Backward"): {"chapter": "gradients", "gradients_view": "Traffic"},
    ("roofline_view", "Memory"): {"chapter": "memory"},
    ("io_axis", "against T"): {"io_axis": "against N"},
    ("io_axis", "against M"): {"io_axis": "against SRAM"},
}
"""(parameter, value) of an old link -> what it says now. It is followed in the chapter that it is from."""

OLD_LINE = "gradients_line"
"""The line of the derivation, from when the chapter began with the derivation and named no view for it."""


def follow_old_link(query: MutableMapping[str, str]) -> bool:
    """Change the parameters of a link from before a chapter or a view was moved; whether there was one."""
    before = dict(query)
    slug = query.get("chapter", "")
    if slug in OLD_SLUGS:
        slug = query["chapter"] = OLD_SLUGS[slug]
    for (name, value), now in OLD_LINKS.items():
        if slug == name.partition("_")[0] and query.get(name) == value:
            del query[name]
            query.update(now)
    if slug == "gradients" and OLD_LINE in query:
        query.update(gradients_derivation=query.pop(OLD_LINE), gradients_view="Line by line")
    return dict(query) != before
