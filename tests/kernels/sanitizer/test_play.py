"""What is seen of a kernel from outside: tiles, bytes and lines, as our kernels trace them themselves."""

import pytest

from kernels.device.runtime import DEVICE
from kernels.problem import AttentionProblem, InvalidProblem

if DEVICE != "cpu":
    pytest.skip("the interpreter is off on a GPU", allow_module_level=True)

import numpy as np
import torch

from examples.buggy_kernel import attention_fixed
from kernels.algorithms import algorithm_of, run_traced, runner_of
from kernels.problem.inputs import make_inputs
from kernels.sanitizer.play import play
from kernels.trace import Trace
from tests.kernels.sanitizer import cases

PROBLEM = AttentionProblem(q_len=40, kv_len=70, head_dim=16, q_heads=2, kv_heads=2, block_m=16, block_n=32)


def played(attend, problem=PROBLEM, inputs=None):
    return play(problem, inputs or make_inputs(problem, DEVICE), attend, "mine")


def bytes_of(trace, name):
    column = trace.tensors.index(name)
    return int(trace.tensor_bytes_read[:, column].sum()), int(trace.tensor_bytes_written[:, column].sum())


def visits(trace):
    """(head, query tile, key tile) in the order of each program's steps, by program."""
    where = zip(trace.batch_head.tolist(), trace.q_tile.tolist(), trace.kv_tile.tolist(), strict=True)
    by_program = {}
    for kernel, program, step in zip(trace.kernel.tolist(), trace.program.tolist(), where, strict=True):
        by_program.setdefault((kernel, program), []).append(step)
    return sorted(by_program.values())


@pytest.mark.parametrize(("name", "mask"), [("flash1", "full"), ("flash2", "causal")])
def test_what_is_seen_of_our_kernels_is_what_they_trace_themselves(name, mask):
    problem = PROBLEM.with_(mask=mask)
    own = run_traced(problem, name)
    seen = played(lambda *inputs: runner_of(name).forward(problem, *inputs)[0], problem)
    assert seen.problem == problem
    assert visits(seen) == visits(own)
    for tensor in ("Q", "K", "V"):
        assert bytes_of(seen, tensor) == bytes_of(own, tensor), tensor
    assert seen.total_bytes == own.total_bytes
    assert np.array_equal(seen.output, own.output)
    (kernel,) = seen.observed.kernels
    assert kernel.stays == algorithm_of(own).kernels[0].stays
    assert kernel.products == algorithm_of(own).kernels[0].products
    assert seen.observed.skips_tiles


COPIES = {
    "another layout": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "another type": lambda x: x.float(),
    "copies of heads": lambda x: x.repeat_interleave(1, dim=1).clone(),
}


@pytest.mark.parametrize("change", COPIES.values(), ids=COPIES)
def test_copies_of_the_inputs_are_recognised(change):
    seen = played(lambda *inputs: attention_fixed(*map(change, inputs)).to(inputs[0].dtype))
    assert seen.observed.notes == ()
    assert set(seen.tensors) == {"Q", "K", "V", "O"}
    assert visits(seen) == visits(played(attention_fixed))


def test_views_of_one_packed_tensor_are_told_apart():
    problem = PROBLEM.with_(q_len=70)
    packed = torch.stack(make_inputs(problem, DEVICE), dim=2)
    attend = lambda *qkv: attention_fixed(*(tensor.contiguous() for tensor in qkv))  # noqa: E731
    seen = played(attend, problem, packed.unbind(2))
    assert set(seen.tensors) == {"Q", "K", "V", "O"}
    assert bytes_of(seen, "K") == bytes_of(seen, "V") == (2 * 3 * 70 * 16 * 2, 0)


def test_key_heads_that_are_repeated_are_drawn_as_keys():
    seen = played(
        lambda query, *kv: attention_fixed(query, *(each.repeat_interleave(2, 1) for each in kv)),
        PROBLEM.with_(kv_heads=1),
    )
    assert set(seen.tensors) == {"Q", "K", "V", "O"}
    assert set(seen.batch_head.tolist()) == {0, 1}


def test_partial_results_are_scratch_and_a_combining_kernel_has_no_key_tile():
    seen = played(cases.split_kv)
    assert seen.kernels == ("_split", "_combine")
    assert set(seen.tensors) == {"Q", "K", "V", "O", "parts", "sums"}
    combine = seen.kernel == 1
    assert (seen.kv_tile[combine] == -1).all()
    assert sorted(seen.q_tile[combine].tolist()) == [0, 0, 1, 1]
    assert bytes_of(seen, "parts") == (2 * 3 * 40 * 16 * 4,) * 2
    assert bytes_of(seen, "O") == (0, 2 * 40 * 16 * 2)


def test_sites_are_before_in_and_after_the_loop_with_their_lines():
    (kernel,) = played(attention_fixed).observed.kernels
    parts = (kernel.before, kernel.step, kernel.after)
    names = [[phase.name.split(",")[0] for phase in part] for part in parts]
    assert names == [["load Q"], ["load K", "load V"], ["store O"]]
    lit = {line.phase: line.text for line in kernel.source.lines}
    assert "k_tile = tl.load(k + " in lit[kernel.step[0].name]
    assert "tl.store(out + " in lit[kernel.after[0].name]


def test_what_cannot_be_recognised_is_said():
    seen = played(lambda query, key, value: attention_fixed(query, key + 0 * key, value))
    assert "k" in seen.tensors
    (note,) = seen.observed.notes
    assert "no access to K " in note
    seen = played(cases.overlapping)
    assert any("multiples of 32" in note for note in seen.observed.notes)


def test_a_kernel_that_visits_hidden_tiles_is_not_said_to_skip_them():
    problem = PROBLEM.with_(q_len=70, mask="causal")
    assert not played(lambda *inputs: attention_fixed(*inputs, is_causal=True), problem).observed.skips_tiles


def test_a_function_without_a_triton_kernel_is_refused():
    with pytest.raises(InvalidProblem, match="no Triton kernel"):
        played(torch.nn.functional.scaled_dot_product_attention)


def test_a_saved_trace_is_read_again_with_what_is_known_of_its_kernel():
    seen = played(attention_fixed)
    again = Trace.load(seen.to_bytes())
    assert again.observed == seen.observed
    assert algorithm_of(again).label == "mine"
