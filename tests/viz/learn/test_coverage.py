"""Everything that the five introductions describe has a page or a kernel that shows it.

They are Chu, Liu and Lin 2026, Nagaraj 2025, MSRA SH Triton Study Group 2025, "FlashAttention, step by
step" and "Making Attention I/O-Aware". The rows: A algorithms, S softmax, D derivations, F the frame around
them. A target is "learn:<chapter>", "explore:<algorithm>", "module:<importable name>" or
"test:<file>::<function>".
"""

import ast
import importlib.util

import pytest

from kernels.algorithms import ALGORITHMS
from tests import ROOT
from viz.learn.chapters import CHAPTERS

ROWS = {
    "A1": "standard attention forward, S and P through HBM",
    "A2": "standard backward, seven square matrices moved",
    "A3": "row-wise forward and backward",
    "A4": "blockwise product without softmax",
    "A5": "FlashAttention-2 forward, query outer",
    "A6": "FlashAttention-1 forward, key outer",
    "A7": "why A5 moves less than A6, counted",
    "A8": "backward: D, then dK and dV, then dQ, P from lse",
    "A9": "loop orders of the backward pass",
    "A10": "flash-decoding: split the keys, combine with lse",
    "A11": "skipped blocks, unequal lengths, parallelism",
    "A12": "block sizes against the memory of a chip",
    "A13": "IO complexity and its lower bound",
    "A14": "access, work and intensity of each kernel",
    "A15": "memory against compute on the A100",
    "A16": "memory hierarchy of GPUs",
    "S1": "stable softmax and overflow",
    "S2": "online softmax by element and by block, and the wrong update",
    "S3": "three passes, two, one",
    "S4": "lse, one number per row",
    "D1": "gradients of attention derived, both ways for dS",
    "D2": "the layer around it",
    "F1": "five ideas",
    "F2": "layouts and strides without copies",
    "F3": "what came later",
}

SHOWN_BY = {
    "A1": ("explore:standard", "learn:io"),
    "A2": ("learn:gradients", "module:kernels.lessons.backward_traffic"),
    "A3": ("explore:row_wise", "learn:io"),
    "A4": ("learn:tiling",),
    "A5": ("explore:flash2",),
    "A6": ("explore:flash1",),
    "A7": ("learn:io", "explore:flash1", "explore:flash2"),
    "A8": ("explore:backward", "learn:gradients"),
    "A9": ("explore:backward_q_outer", "explore:backward", "learn:gradients"),
    "A10": ("explore:split_kv", "learn:after"),
    "A11": ("learn:after", "module:kernels.problem.tiles", "module:kernels.trace.schedule"),
    "A12": ("learn:io",),
    "A13": ("learn:io",),
    "A14": ("learn:roofline",),
    "A15": (
        "learn:roofline",
        "test:tests/kernels/traffic/test_modelled.py::test_the_slides_example_is_reproduced",
    ),
    "A16": ("learn:roofline", "module:kernels.device.gpus"),
    "S1": ("learn:softmax",),
    "S2": ("learn:softmax",),
    "S3": ("learn:softmax",),
    "S4": ("learn:gradients", "explore:backward"),
    "D1": (
        "learn:gradients",
        "test:tests/kernels/lessons/test_gradients.py::test_every_line_is_what_autograd_gives",
    ),
    "D2": (
        "learn:gradients",
        "module:kernels.attention.layer",
        "test:tests/kernels/attention/test_layer.py::test_output_and_gradients_are_those_of_torchs_layer_in_float64",
    ),
    "F1": ("learn:ideas",),
    "F2": (
        "module:kernels.attention.flash_attention",
        "test:tests/kernels/algorithms/flash2/test_forward.py::test_any_strides_without_copies",
    ),
    "F3": ("learn:after",),
}


def exists(target):
    """Whether a target is there: a chapter with a page, a kernel of the list, a module, a test."""
    kind, _, name = target.partition(":")
    if kind == "learn":
        return name in {chapter.slug for chapter in CHAPTERS}
    if kind == "explore":
        return name in ALGORITHMS and importlib.util.find_spec(ALGORITHMS[name].runner) is not None
    if kind == "module":
        try:
            return importlib.util.find_spec(name) is not None
        except ModuleNotFoundError:
            return False
    if kind == "test":
        file, _, function = name.partition("::")
        path = ROOT / file
        return path.is_file() and function in {
            node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)
        }
    raise ValueError(f"{target!r}: a target starts with learn:, explore:, module: or test:")


def missing(rows, shown_by):
    """Rows without a target, and targets that are not there."""
    return [row for row in rows if not shown_by.get(row)] + [
        target for targets in shown_by.values() for target in targets if not exists(target)
    ]


@pytest.mark.parametrize("row", ROWS)
def test_every_row_is_shown(row):
    assert not missing([row], {row: SHOWN_BY.get(row, ())})


def test_no_row_is_made_up():
    assert set(SHOWN_BY) == set(ROWS)


def test_every_chapter_shows_something():
    targets = [target for targets in SHOWN_BY.values() for target in targets]
    shown = {target.removeprefix("learn:") for target in targets if target.startswith("learn:")}
    assert shown == {chapter.slug for chapter in CHAPTERS}
