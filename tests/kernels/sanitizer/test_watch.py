"""Faults in the use of memory: each is found and named with its line, and right kernels have none."""

import importlib
import inspect
import linecache
from types import SimpleNamespace

import pytest

from kernels.check.case.cases import CheckCase
from kernels.check.judge.run import order_finding, run_check
from kernels.check.result import Repeats, TensorCheck
from kernels.check.subject.hosted import Controls, Hosted, Seen
from kernels.check.subject.user_kernel import UserKernel, name_user_kernels
from kernels.device.runtime import DEVICE
from kernels.problem import AttentionProblem

if DEVICE != "cpu":
    pytest.skip("the interpreter is off on a GPU", allow_module_level=True)

import torch

from kernels.algorithms import ALGORITHMS, run_traced, runner_of
from kernels.problem.inputs import make_inputs
from kernels.sanitizer.finding import UNDEFINED
from kernels.sanitizer.watch import watch_memory
from tests.anywhere import ANYWHERE
from tests.kernels.helpers import rows_keep_their_bits
from tests.kernels.sanitizer import cases

import triton
import triton.language as tl

interpreter = importlib.import_module("triton.runtime.interpreter")
RAGGED = AttentionProblem(q_len=49, kv_len=70, head_dim=16, q_heads=2, kv_heads=2, block_m=32, block_n=32)


@pytest.fixture(scope="module")
def inputs():
    return make_inputs(RAGGED, DEVICE)


def checked(kernel, **changes):
    name_user_kernels([UserKernel.parse(f"{cases.__file__}:{kernel}")])
    Hosted.of = ""  # all share one process
    problem = RAGGED.with_(**{"q_len": 40, "kv_len": 40} | changes)
    return run_check(CheckCase(problem, "user", gradients=False, repeats=2))


@pytest.mark.parametrize(("kernel", "kinds"), cases.EXPECTED.items(), ids=cases.EXPECTED)
def test_a_kernel_has_the_findings_that_it_must_have(kernel, kinds):
    if kernel == "overlapping" and not rows_keep_their_bits():
        pytest.skip("on this CPU the two programs write other bits")
    result = checked(kernel)
    assert {finding.kind for finding in result.findings} == kinds
    assert result.verdict == ("fail" if kinds - {UNDEFINED} else "pass"), result.reason
    assert sum(note.startswith("Memory") for note in result.notes) == (not kinds)


def test_the_line_whose_undefined_values_are_used_is_named_and_nothing_else_is_wrong():
    result = checked("uses_undefined", dtype="bfloat16")
    (finding,) = result.findings
    assert finding.kind == UNDEFINED
    assert "reach O." in finding.words
    assert finding.source == linecache.getline(cases.__file__, finding.line).strip()
    assert finding.source.startswith("v_tile = ")
    assert (result.verdict, result.causes) == ("pass", ())  # with 0 there, as NVIDIA's GPUs load
    assert "right if the masked loads without `other` give 0" in result.reason
    assert checked("uses_undefined", dtype="float32", kv_len=64).findings == ()  # nothing is left out


@pytest.mark.parametrize("name", [name for name in ANYWHERE if ALGORITHMS[name].checked])
def test_our_kernels_have_no_finding_and_give_the_same_results(name, inputs):
    problem, runner = RAGGED.with_(mask="causal"), runner_of(name)
    plain, _ = runner.forward(problem, *inputs)
    with watch_memory() as watch:
        watched, _ = runner.forward(problem, *inputs)
    assert watch.findings == ()
    assert torch.equal(plain, watched)


def test_our_gradients_have_no_finding():
    for name in ("backward", "backward_q_outer", "backward_kv_outer"):
        with watch_memory() as watch:
            run_traced(RAGGED.with_(q_heads=1, kv_heads=1), name)
        assert watch.launches > 1
        assert watch.findings == (), name


def found_by(kernel, inputs=()):
    with watch_memory() as watch:
        kernel(*inputs)
    (finding,) = watch.findings
    return finding


def test_a_finding_names_tensor_element_program_and_line(inputs):
    finding = found_by(cases.reads_past_keys, inputs)
    assert finding.kind == "out-of-bounds read"
    assert finding.words.startswith(
        "program (0, 1, 0) of _attend reads element 2,240 of k (argument 2 of _attend), whose memory holds "
        "elements 0 to 2,239 (shape (1, 2, 70, 16))"
    )
    # of the last head, 96 - 70 rows of 16 elements, read by two programs
    assert f"Elements: {2 * 26 * 16:,}; programs: 2" in finding.words
    assert finding.source == linecache.getline(cases.__file__, finding.line).strip()
    assert finding.file == cases.__file__
    assert "# reads past the end" in finding.source


def test_a_write_conflict_names_both_programs(inputs):
    finding = found_by(cases.writes_rows_of_others, inputs)
    assert finding.words.startswith("program (1, 0, 0) of _note_program writes out[0, 0, 32, 0]")
    assert "program (0, 0, 0) of the same" in finding.words


def test_what_lies_out_of_bounds_is_neither_read_nor_written():
    memory = torch.arange(96, dtype=torch.float32)
    inside = torch.empty(0).set_(memory[:64].clone().untyped_storage(), 0, (64,))

    @triton.jit
    def double(x, y):
        at = tl.arange(0, 128)
        tl.store(y + at, tl.load(x + at) * 2)

    out = torch.full((64,), -1.0)
    with watch_memory() as watch:
        double[(1,)](inside, out)
    assert [finding.kind for finding in watch.findings] == ["out-of-bounds read", "out-of-bounds write"]
    assert torch.equal(out, 2 * inside)


@triton.jit
def _shift(x, y, by, count, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    tl.store(y + at, tl.load(x + at + by, mask=at < count), mask=at < count)


@pytest.mark.parametrize("by", [-1, 1, -(2**20), 2**40])
def test_an_access_is_held_against_the_tensor_that_it_was_meant_for(by):
    """The memory of another argument is out of bounds too: both ends, and far away."""
    both = [torch.arange(32, dtype=torch.float32) for _ in range(2)]
    finding = found_by(lambda: _shift[(1,)](*both, by, 32, 32))
    assert finding.kind == "out-of-bounds read"
    assert " of x (argument 1 of _shift)" in finding.words
    assert "elements 0 to 31 " in finding.words


def test_what_torch_or_a_kernel_wrote_may_be_read_and_no_more():
    """A NaN that a kernel writes is written too."""
    x, y = torch.full((32,), float("nan")), torch.zeros(32)
    with watch_memory() as watch:
        scratch, other = torch.empty(32), torch.empty(32)
        scratch[:20] = x[:20]
        _shift[(1,)](scratch, y, 0, 20, 32)
        _shift[(1,)](x, other, 0, 32, 32)
        _shift[(1,)](other, y, 0, 32, 32)
        assert watch.findings == ()
        _shift[(1,)](scratch, y, 0, 21, 32)
    (finding,) = watch.findings
    assert "reads x[20] (argument 1 of _shift)" in finding.words


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int32])
def test_new_memory_of_every_type_is_known_to_be_unwritten(dtype):
    y = torch.zeros(32, dtype=dtype)
    for make in (torch.empty_like, lambda like: like.new_empty(32)):
        finding = found_by(lambda make=make: _shift[(1,)](make(y), y, 0, 32, 32))
        assert finding.kind == "read of unwritten memory"


@triton.jit
def _write_wide_read_narrow(scratch, halves, y):
    at = tl.arange(0, 16)
    tl.store(scratch.to(tl.pointer_type(tl.float32)) + at, at.to(tl.float32))
    tl.store(y + tl.arange(0, 32), tl.load(halves + tl.arange(0, 32)))


def test_what_was_written_in_another_width_is_written():
    y = torch.zeros(32, dtype=torch.float16)
    with watch_memory() as watch:
        scratch = torch.empty(32, dtype=torch.float16)
        _write_wide_read_narrow[(1,)](scratch, scratch, y)
    assert watch.findings == ()
    assert torch.equal(y.view(torch.float32), torch.arange(16, dtype=torch.float32))


@pytest.mark.parametrize(
    ("off", "atomics", "found"), [(0, False, 0), (1e-6, False, 1), (1e-6, True, 0), (1, True, 1)]
)
def test_rounding_in_another_order_is_allowed_to_atomics_alone(off, atomics, found):
    """A kernel's result in reverse order is off; nothing is said of one that differs from run to run."""
    first = torch.full((4,), 0.5)
    check = TensorCheck("O", 0, 0, 0, 0, 1e-4, (), 0, 0, 0, 4)
    subject = SimpleNamespace(seen=Seen(programs=2, atomics=atomics), controls=Controls())

    def again():
        return {"O": first + off * (subject.controls.in_reverse or counts)}

    counts = False
    runs = SimpleNamespace(got={"O": first}, again=again, subject=subject)
    assert len(order_finding(runs, Repeats(2, {"O": 0}, 0.0), (check,))) == found
    assert order_finding(runs, Repeats(2, {"O": 1}, 1.0), (check,)) is None
    counts = True  # every later call differs, in any order
    assert not order_finding(runs, Repeats(2, {"O": 0}, 0.0), (check,))


@triton.jit
def _by_table(table, y, SIZE: tl.constexpr):
    x = tl.load(table).to(tl.pointer_type(tl.float32))
    at = tl.arange(0, SIZE)
    tl.store(y + at, tl.load(x + at))


def test_a_table_of_pointers_is_left_alone():
    x, y = torch.arange(32, dtype=torch.float32), torch.zeros(32)
    with watch_memory() as watch:
        _by_table[(1,)](torch.tensor([x.data_ptr()]), y, 32)
    assert watch.findings == ()
    assert torch.equal(x, y)


@triton.jit
def _divide(by):
    tl.static_assert(1 // int(by) > 0)


def test_the_interpreter_is_as_before_afterwards(inputs):
    builder = interpreter.interpreter_builder
    names = ("create_masked_load", "create_atomic_cas", "set_grid_idx")
    before = [getattr(builder, name) for name in names]
    convert, launch = interpreter._implicit_cvt, interpreter.GridExecutor.__call__
    with pytest.raises(Exception, match="ZeroDivisionError"), watch_memory():
        _divide[(1,)](0)
    assert [getattr(builder, name) for name in names] == before
    assert interpreter._implicit_cvt is convert
    assert interpreter.GridExecutor.__call__ is launch


@pytest.mark.parametrize("access", ["load", "store", "atomic_rmw", "atomic_cas"])
def test_all_accesses_of_the_interpreter_go_through_the_methods_that_are_watched(access):
    """If another Triton accesses memory elsewhere too, this fails, and the watch has to be looked at."""
    assert inspect.getsource(interpreter).count(f"_interpreter.{access}(") == 1
