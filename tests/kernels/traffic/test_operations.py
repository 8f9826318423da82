"""Bytes of standard attention, operation by operation."""

from kernels.problem import AttentionProblem
from kernels.traffic.operations import count_operations


def test_operations_of_naive_attention_are_counted_from_their_tensors():
    problem = AttentionProblem(q_heads=2, kv_heads=2, q_len=256, kv_len=256, head_dim=64)
    square, tensor = 2 * 256 * 256 * 2, 2 * 256 * 64 * 2
    forward = count_operations(problem)
    assert [operation.name for operation in forward] == ["bmm", "mul", "_softmax", "bmm"]
    moved = [operation.bytes_moved for operation in forward]
    assert moved == [2 * tensor + square, 2 * square, 2 * square, square + 2 * tensor]
    backward = count_operations(problem, "backward")
    assert sum(operation.name == "bmm" for operation in backward) == 4
    causal = count_operations(problem.with_(mask="causal"))
    assert any("masked_fill" in operation.name for operation in causal)


def test_an_element_that_a_view_repeats_is_read_once():
    """Two query heads over one key head: the key is copied, 8 rows in and twice 8 rows out."""
    problem = AttentionProblem(q_heads=2, kv_heads=1, q_len=4, kv_len=8, head_dim=16)
    key, value = count_operations(problem)[:2]
    assert (key.bytes_read, key.bytes_written) == (8 * 16 * 2, 2 * 8 * 16 * 2)
    assert key == value


def test_any_length_takes_no_memory():
    """S has 2 ** 40 elements, and so has the mask."""
    longest = AttentionProblem(q_len=1 << 20, kv_len=1 << 20, head_dim=16, mask="causal")
    for direction in ("forward", "backward"):
        largest = max(operation.bytes_written for operation in count_operations(longest, direction))
        assert largest == 2 << 40
