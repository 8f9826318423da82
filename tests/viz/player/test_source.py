"""The source panel shows the kernel's own lines, and its phases are those that the entry declares."""

import ast
import re
from dataclasses import replace

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.trace.algorithm import Phase, SourceRef
from tests import ROOT
from viz.player.source import MARKER, kernel_source, only_records

KERNELS = dict.fromkeys(kernel for entry in ALGORITHMS.values() for kernel in entry.kernels)
FLASH2 = ALGORITHMS["flash2"].kernel("_attn_fwd")


def sources():
    for kernel in KERNELS:
        for ref in {kernel.source, kernel.wide_source} - {None}:
            yield pytest.param(kernel, kernel_source(kernel, ref), id=f"{kernel.name} {ref.parts[-3:-2]}")


def all_lines(source):
    return source.before + source.step + source.after


def test_lines_are_those_of_their_files_in_their_order():
    source = kernel_source(FLASH2, FLASH2.source)
    texts = {}
    for line in all_lines(source):
        lines = texts.setdefault(line.file, (ROOT / line.file).read_text().splitlines())
        assert lines[line.number - 1].strip() == line.text.strip()
    assert set(texts) == {source.file, "kernels/primitives/online_softmax.py"}
    for part in (source.before, source.step, source.after):
        numbers = [line.number for line in part if line.file == source.file]
        assert len(numbers) > 2
        assert numbers == sorted(numbers)


@pytest.mark.parametrize(("kernel", "source"), list(sources()))
def test_every_declared_phase_shows_code_in_its_order_and_no_line_only_records(kernel, source):
    lines = {
        part: [line for line in getattr(source, part) if not line.text.strip().startswith("#")]
        for part in ("before", "step", "after")
    }
    for part, own in lines.items():
        assert list(dict.fromkeys(line.phase for line in own)) == [
            each.name for each in getattr(kernel, part)
        ]
        for line in own:
            assert not re.search(r"record_|\bmark|globaltimer|TRACE|LANES|\btrace\b", line.text), line


def test_every_marker_of_a_kernels_file_is_a_declared_phase():
    declared = {phase.name for kernel in KERNELS for phase in kernel.phases} | {"end"}
    for kernel in KERNELS:
        lines = (ROOT / kernel_source(kernel, kernel.source).file).read_text().splitlines()
        assert {found["phase"] for line in lines if (found := MARKER.match(line))} <= declared


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


def test_a_kernel_outside_the_project_is_shown_with_its_whole_path(tmp_path, monkeypatch):
    (tmp_path / "made_up_kernel.py").write_text("def double(x):\n    # [twice]\n    return 2 * x\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    kernel = replace(FLASH2, before=(Phase("twice"),))
    source = kernel_source(kernel, SourceRef("made_up_kernel", "double"))
    assert source.file == str(tmp_path / "made_up_kernel.py")
    assert [(line.number, line.text, line.phase) for line in source.before] == [
        (2, "# [twice]", "twice"),
        (3, "return 2 * x", "twice"),
    ]


def test_without_a_pattern_the_code_is_that_of_the_band():
    """With one, all of it is there; what is left of a branch stands where the code around it stands."""
    plain, whole = (kernel_source(FLASH2, FLASH2.source, has_pattern) for has_pattern in (False, True))
    texts = {line.text.strip(): line for line in plain.step}
    assert {*plain.step} != {*whole.step}
    assert not any("change_scores" in text for text in texts)
    assert any("change_scores" in line.text for line in whole.step)
    weights = next(line for text, line in texts.items() if text.startswith("p = tl.exp2"))
    beside = next(line for text, line in texts.items() if text.startswith("shift ="))
    assert weights.text.index("p") == beside.text.index("s")
