"""Everything that the five introductions describe is shown by a chapter, or played by a kernel.

They are Chu, Liu and Lin 2026, Nagaraj 2025, MSRA SH Triton Study Group 2025, "FlashAttention, step by
step" and "Making Attention I/O-Aware".
"""

from urllib.parse import parse_qs

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.problem.presets import PRESETS
from tests.app.pages import mounted_player, open_chapter, open_page
from viz.learn.chapters import CHAPTERS
from viz.shared import runs

SHOWN = {
    "standard attention and row-wise attention in HBM traffic": (
        "io",
        "Forward",
        "**standard**",
        "**row-wise, ",
    ),
    "FlashAttention-2 moves less than FlashAttention-1": (
        "io",
        "Forward",
        "**flashattention-1**",
        "**flashattention-2**",
    ),
    "IO complexity and its lower bound": ("io", "Growth", "lower bound"),
    "block sizes against the memory of a chip": (
        "io",
        "SRAM",
        "(eq 44)",
        "(eq 79)",
        "what our compiled kernels use",
    ),
    "standard backward moves seven square matrices": ("gradients", "Traffic", r"7\,n^2"),
    "loop orders of the backward pass": ("gradients", "Traffic", "algorithm 6", "algorithm 7", "algorithm 8"),
    "a product in tiles": ("tiling", "A product in tiles", "splits into products of tiles"),
    "a blockwise product without softmax": ("tiling", "Attention without softmax", "one tile of s exists"),
    "softmax between the products": ("tiling", "Softmax in between", "o without tiles"),
    "access, work and intensity of each kernel": ("roofline", "Tables", "intensity"),
    "memory against compute on the A100": ("sources", "", "a100", "0.86"),
    "memory hierarchy of GPUs": ("memory", "", "registers", "l2", "hbm", "sram"),
    "ridge of the roofline": ("roofline", "Roofline", "**ridge of the"),
    "stable softmax and overflow": (
        "softmax",
        "Subtract the max",
        "overflow",
        "exceeds what a number format can hold",
    ),
    "online softmax by blocks": ("softmax", "One pass", r"m' = \max(m, \max x)"),
    "three passes, two, one": ("softmax", "Three passes, two, one", "three passes"),
    "lse, one number per row": ("ideas", "", "lse"),
    "five ideas": ("ideas", "", "fusion", "tiling", "online softmax", "recomputation", "lse"),
    "gradients of attention and of its layer": ("gradients", "Line by line", "w_q", "rowsum"),
    "FLOPs stay, traffic changes": ("ideas", "", "the products stay what they are", "| products, "),
    "exact, not approximate": ("ideas", "", "linformer", "performer", "longformer"),
    "compilers and checkpointing": ("ideas", "", "a compiler fuses", "checkpointing within one operation"),
    "graph of the layer and of two tokens": (
        "gradients",
        "Graphs",
        "z leads to q, k and v",
        "dv_{00}",
        "ds_{00}",
    ),
    "heads and their concatenation": (
        "gradients",
        "Line by line&gradients_derivation=heads",
        "concatenation",
        "w<sub>o",
    ),
    "dZ with its inputs": (
        "gradients",
        "Line by line&gradients_derivation=layer",
        "w<sub>q</sub><sup>t</sup>",
        ">dz <small>",
    ),
    "dividing at every tile or once": ("tiling", "Softmax in between", "| divisions |", "once at the end"),
    "work of the backward pass": ("gradients", "Traffic", r"8\,n^2d + 2\,n^2 + 2\,nd", "room on the chip"),
    "algorithms 7 and 8 counted": ("gradients", "Traffic", "a key-outer order", "tile-by-tile run"),
    "numerators per block": ("softmax", "One pass", r"\alpha\, y", "y' / l'"),
    "other operations on the roofline": (
        "roofline",
        "Roofline",
        "other operations too",
    ),
    "slips, and what to read on": ("sources", "", "2.696", "2.749", "github.com/dao-ailab/flash-attention"),
    "which of FlashAttention-1 and row-wise attention moves more, and why": (
        "io",
        "Forward",
        "why does row-wise attention move more than flashattention-1",
        "at n = 256 row-wise attention moves less",
    ),
    "the kernel, played": ("kernel", "", "be the kernel for one step", "exp2"),
    "split keys, merged with lse": ("after", "Split the keys", "split-kv", "merge", "lse"),
    "8-bit numbers": ("after", "FlashAttention-3", "e4m3", "**8-bit numbers**"),
    "late rescales": ("after", "FlashAttention-4", "rescale"),
}
"""What is described -> the chapter, its view, and words that the view shows."""
VIEWS = {
    "io": "io_view",
    "roofline": "roofline_view",
    "softmax": "softmax_part",
    "tiling": "tiling_part",
    "after": "after_topic",
    "gradients": "gradients_view",
}
PLAYED = {
    "standard attention, S and P through HBM": "standard",
    "row-wise attention": "row_wise",
    "FlashAttention-2, query outer": "flash2",
    "FlashAttention-1, key outer": "flash1",
    "backward: D, then dK and dV, then dQ": "backward",
    "backward, query outer: dK and dV travel": "backward_q_outer",
    "flash-decoding": "split_kv",
}


def words_of(app):
    """All that a page shows, in small letters."""
    texts = [element.value for element in [*app.markdown, *app.caption, *app.latex, *app.subheader]]
    texts += [toggle.label for toggle in app.toggle]
    texts += [element.proto.body for element in app.get("html")]
    texts += [chart.proto.spec for chart in app.get("plotly_chart")]
    return "\n".join(texts).lower()


@pytest.mark.parametrize("subject", SHOWN)
def test_a_chapter_shows_it(subject, monkeypatch):
    monkeypatch.setattr(runs, "run_store", lambda: None)
    chapter, view, *words = SHOWN[subject]
    query = parse_qs(f"{VIEWS[chapter]}={view}") if view else {}
    app = open_chapter(chapter, **{name: values[0] for name, values in query.items()})
    assert not app.exception
    shown = words_of(app)
    assert [word for word in words if word not in shown] == []


@pytest.mark.parametrize("subject", PLAYED)
def test_a_kernel_plays_it(subject, monkeypatch):
    monkeypatch.setattr(runs, "run_store", lambda: None)
    name = PLAYED[subject]
    app = open_page(**PRESETS[ALGORITHMS[name].recorded[0]].problem.as_dict(), algorithm=name)
    assert not app.exception
    assert mounted_player(app)["run"]["steps"]["count"] > 0


def test_no_chapter_is_without_a_subject():
    assert {chapter.slug for chapter in CHAPTERS} == {chapter for chapter, *_ in SHOWN.values()}
