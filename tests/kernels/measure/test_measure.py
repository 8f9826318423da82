"""measure.py: what is refused, what is measured, and that JSON keeps it. No wall-clock time is asserted."""

import pytest
import torch

from kernels.device import clocks
from kernels.device.runtime import BACKEND, DEVICE
from kernels.measure import measure as measuring
from kernels.measure.__main__ import main
from kernels.measure.document import read_document
from kernels.measure.measure import measure, naive_peak_bytes, refuse_naive, smallest_problem
from kernels.measure.measurement import PeerResult
from kernels.measure.peers import PEERS
from kernels.problem import AttentionProblem, InvalidProblem
from tests.kernels.documents import measurement

SMALL = AttentionProblem(q_len=128, kv_len=128, dtype="float32", block_m=32, block_n=32)
FUSED = "sdpa" if DEVICE == "cpu" else "sdpa_efficient"  # which takes float32


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(clocks, "BUDGET_S", 0.01)


def test_naive_attention_that_does_not_fit_is_refused_before_it_is_run(monkeypatch):
    problem = AttentionProblem(batch=8, q_heads=32, kv_heads=32, q_len=16384, kv_len=16384)
    assert naive_peak_bytes(problem) == 2 * 8 * 32 * 16384**2 * 2
    assert refuse_naive(problem, 24_000_000_000) == "needs 274.9 GB, 24.0 GB free"
    assert refuse_naive(SMALL, 24_000_000_000) is None
    monkeypatch.setattr(measuring, "refuse_naive", lambda problem, free, direction: "needs 68 GB")
    result = measure(SMALL, ["naive"]).result("naive")
    assert result == PeerResult("naive", refused="needs 68 GB", out_of_memory=True)


def test_time_and_memory_of_every_peer_and_the_time_of_calls_beside_it(monkeypatch):
    clock = type(clocks.clock_for(BACKEND))
    monkeypatch.setattr(clock, "call_time", lambda self, call: clocks.CallTime(0.5, 0.75))
    labels = []
    measured = measure(SMALL, directions=("forward", "backward"), progress=labels.append)
    assert {result.peer for result in measured.results} == {*labels} - {"timing"}
    for result in measured.results:
        if result.refused is None:
            assert 0 < result.timing.low_ms <= result.timing.median_ms <= result.timing.high_ms
            assert result.timing.samples >= clocks.MIN_SAMPLES
            assert result.tflops(SMALL) > 0
            assert (result.host_ms, result.call_ms) == (0.5, 0.75)


def test_naive_memory_is_at_least_its_score_matrices_and_fused_memory_is_less():
    problem = SMALL.with_(q_len=1024, kv_len=1024)
    naive, fused = measure(problem, ["naive", FUSED if DEVICE == "cpu" else "flash2"]).results
    assert naive.peak_extra_bytes >= naive_peak_bytes(problem)
    assert fused.peak_extra_bytes < naive.peak_extra_bytes / 2
    assert fused.peak_extra_bytes >= problem.q_len * problem.head_dim * 4


@pytest.mark.parametrize(
    ("peers", "directions", "accepted"),
    [(["naive"], ("sideways",), "some of forward, backward"), (["torch"], ("forward",), "some of naive, ")],
)
def test_an_unknown_direction_or_peer_is_refused_with_the_accepted_ones(peers, directions, accepted):
    with pytest.raises(InvalidProblem, match=accepted):
        measure(SMALL, peers, directions)
    assert PEERS["flash2"].backends == ("cuda",)  # the interpreter is never timed as a kernel


@pytest.mark.skipif(DEVICE != "cpu", reason="on a GPU a graph has no such cost")
def test_the_fixed_cost_is_that_of_the_smallest_problem_of_the_same_kind(monkeypatch):
    made, make = [], measuring.make_call

    def spy(name, direction, problem, tensors):
        made.append((name, direction, problem.q_len, problem.kv_len))
        return make(name, direction, problem, tensors)

    monkeypatch.setattr(measuring, "make_call", spy)
    assert measure(SMALL, [FUSED]).result(FUSED).overhead_ms > 0
    assert made == [(FUSED, "forward", 128, 128), (FUSED, "forward", 1, 1)]
    smallest = smallest_problem(SMALL.with_(q_heads=8, kv_heads=2, batch=3, mask="causal", inputs="large"))
    assert (smallest.q_shape, smallest.kv_shape) == ((1, 4, 1, 64), (1, 1, 1, 64))
    assert (smallest.mask, smallest.dtype) == ("causal", "float32")


def test_the_ratio_to_naive_is_taken_round_by_round(monkeypatch):
    """The machine drifts: both peers take ten times longer in the end, and the ratio stays."""
    drifting = {"naive": [4.0, 4.0, 40.0, 40.0, 40.0], FUSED: [2.0, 2.0, 20.0]}
    monkeypatch.setattr(
        clocks.Clock if DEVICE == "cpu" else clocks.CudaClock,
        "sample_in_rounds",
        lambda self, calls, budget_s=None: {name: drifting[name] for name in calls},
    )
    fused = measure(SMALL, ["naive", FUSED]).result(FUSED)
    assert fused.naive_ratio == (2.0, 2.0)
    assert fused.timing == clocks.Timing(2.0, 2.0, 20.0, 3)
    assert measure(SMALL, [FUSED]).result(FUSED).naive_ratio is None


def test_the_command_line_writes_what_measure_gives(tmp_path, capsys):
    out = tmp_path / "m.json"
    arguments = ["--length", "64,128", "--mask", "full,causal", "--q-heads", "1", "--peers", "naive"]
    assert main([*arguments, "--out", str(out)]) == 0
    document = read_document(out.read_bytes())
    assert document.command.startswith("python -m kernels.measure --length 64,128")
    shapes = [(found.problem.q_len, found.problem.mask) for found in document.measurements]
    assert shapes == [(64, "full"), (64, "causal"), (128, "full"), (128, "causal")]
    of_device = "float32" if DEVICE == "cpu" else "float16"
    assert {found.problem.dtype for found in document.measurements} == {of_device}
    assert "naive" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--kv-heads 0", "kv_heads=0"),
        ("--kv-len 0", "kv_len=0"),
        ("--tokens 0", "tokens=0 is not accepted: expected at least length, which is 1024"),
        ("--tokens 100 --length 0", "q_len=0"),
        ("--width 63", "width=63 is not accepted: expected at least head_dim, which is 64"),
    ],
)
def test_what_is_not_accepted_is_refused_before_anything_is_measured(arguments, words, monkeypatch, capsys):
    monkeypatch.setattr("kernels.measure.__main__.measure", None)  # not called
    assert main(arguments.split()) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("out", ["", "none/m.json"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(out, tmp_path):
    with pytest.raises(SystemExit):
        main(["--out", str(tmp_path / out)])


def test_memory_that_runs_out_on_one_problem_does_not_lose_the_others(tmp_path, monkeypatch, capsys):
    def measured(problem, *_, **options):
        if problem.q_len == 64:
            raise MemoryError("unable to allocate 1 GiB")
        return measurement(problem.q_len)

    monkeypatch.setattr("kernels.measure.__main__.measure", measured)
    out = tmp_path / "m.json"
    assert main(["--length", "32,64,48", "--q-heads", "1", "--out", str(out)]) == 1
    document = read_document(out.read_text())
    assert [found.problem.q_len for found in document.measurements] == [32, 48]
    (words,) = document.left_out
    assert words.startswith("N 64 x 64 d 64")
    assert words.endswith("unable to allocate 1 GiB")
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "reason", "out_of_memory"),
    [
        (TypeError("a compiler's own words"), "a compiler's own words", False),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 68 GiB"), "CUDA out of memory", True),
        (MemoryError(), "MemoryError", True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), None, False),
    ],
    ids=["words", "gpu memory", "memory", "lost context"],
)
def test_a_peer_that_fails_says_so_and_the_others_are_measured(monkeypatch, error, reason, out_of_memory):
    """But nothing can be measured once the CUDA context is lost."""
    made = measuring.make_call

    def fail(name, *arguments):
        if name == "naive":
            raise error
        return made(name, *arguments)

    monkeypatch.setattr(measuring, "make_call", fail)
    if reason is None:
        with pytest.raises(RuntimeError, match="CUDA error"):
            measure(SMALL, ["naive"])
        return
    naive, fused = measure(SMALL, ["naive", FUSED], budget_s=0).results
    assert (naive.refused, naive.out_of_memory) == (reason, out_of_memory)
    assert fused.timing is not None
