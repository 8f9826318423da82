"""The source panel shows the kernel's own lines, and its phases are those that the entry declares."""

import ast
import re

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.trace.algorithm import SourceRef
from tests import ROOT
from viz.player.source import kernel_source, only_records

KERNELS = {kernel.name: kernel for entry in ALGORITHMS.values() for kernel in entry.kernels}
FLASH2 = KERNELS["_attn_fwd"].source


def all_lines(source):
    return source.before + source.step + source.after


def names(phases):
    return tuple(phase.name for phase in phases)


def phases_of(lines):
    """Names of the phases in the order in which they first stand."""
    return tuple(dict.fromkeys(line.phase for line in lines))


def test_lines_are_those_of_their_files():
    source = kernel_source(FLASH2)
    texts = {}
    for line in all_lines(source):
        lines = texts.setdefault(line.file, (ROOT / line.file).read_text().splitlines())
        assert lines[line.number - 1].strip() == line.text.strip()
    assert set(texts) == {source.file, "kernels/primitives/online_softmax.py"}


def test_lines_of_one_file_stand_in_their_order():
    source = kernel_source(FLASH2)
    for part in (source.before, source.step, source.after):
        numbers = [line.number for line in part if line.file == source.file]
        assert len(numbers) > 2
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_markers_in_the_source_are_the_declared_phases(kernel):
    source = kernel_source(kernel.source)
    assert phases_of(source.before) == names(kernel.before)
    assert phases_of(source.step) == names(kernel.step)
    assert phases_of(source.after) == names(kernel.after)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_no_line_of_a_kernel_that_is_shown_only_records(kernel):
    for ref in {kernel.source, kernel.wide_source} - {None}:
        for line in all_lines(kernel_source(ref)):
            assert not re.search(r"record_|\bmark|globaltimer|TRACE|LANES|\btrace\b", line.text), line


@pytest.mark.parametrize(
    ("statement", "records"),
    {
        "record_step(log, tile)": True,
        "mark(lane, turn, HAS_P)": True,
        "log.record(tile)": False,
        "if FIXED.TRACE:\n    start = globaltimer()": True,
        "if trace is not None:\n    slot += 1": True,
        "lane = lane_of(trace, 0)": False,
        "marked = load(x)": False,
        "if MASKED:\n    x = y": False,
    }.items(),
)
def test_a_statement_that_only_records_is_known_by_its_call_or_its_test(statement, records):
    assert only_records(ast.parse(statement).body[0]) == records


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_every_phase_shows_code(kernel):
    code = {
        line.phase
        for line in all_lines(kernel_source(kernel.source))
        if not line.text.strip().startswith("#")
    }
    assert code == set(names(kernel.phases))


@pytest.mark.parametrize(
    ("phase", "words"),
    {
        "load K": "k = load_tile",
        "QK^T": "scores = matmul(q",
        "mask": "mask_scores",
        "row max": "m_new",
        "exponentials": "tl.exp2",
        "rescale": "acc * alpha",
        "load V": "v = load_tile",
        "PV": "acc = matmul",
    }.items(),
)
def test_each_phase_holds_the_line_it_is_about(phase, words):
    assert any(words in line.text for line in kernel_source(FLASH2).step if line.phase == phase)


def test_a_kernel_outside_the_project_is_shown_with_its_whole_path(tmp_path, monkeypatch):
    (tmp_path / "made_up_kernel.py").write_text("def double(x):\n    # [twice]\n    return 2 * x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    source = kernel_source(SourceRef("made_up_kernel", "double"))
    assert source.file == str(tmp_path / "made_up_kernel.py")
    assert [(line.number, line.text, line.phase) for line in source.before] == [
        (2, "# [twice]", "twice"),
        (3, "return 2 * x", "twice"),
    ]
