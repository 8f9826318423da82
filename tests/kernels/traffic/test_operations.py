"""Bytes of naive attention, operation by operation."""

from kernels.problem import AttentionProblem
from kernels.traffic.operations import count_operations


def test_operations_of_naive_attention_are_counted_from_their_tensors():
    problem = AttentionProblem(q_heads=2, kv_heads=2, q_len=256, kv_len=256, head_dim=64)
    square, tensor = 2 * 256 * 256 * 2, 2 * 256 * 64 * 2
    forward = count_operations(problem)
    assert [operation.name for operation in forward] == ["bmm", "mul", "_softmax", "bmm"]
    assert [operation.bytes_moved for operation in forward] == [
        2 * tensor + square,
        2 * square,
        2 * square,
        square + 2 * tensor,
    ]
    backward = count_operations(problem, "backward")
    assert sum(operation.name == "bmm" for operation in backward) == 4
    assert any(
        "masked_fill" in operation.name for operation in count_operations(problem.with_(mask="causal"))
    )
    shared = count_operations(problem.with_(kv_heads=1))
    assert sum(operation.bytes_moved for operation in shared) > sum(
        operation.bytes_moved for operation in forward
    )
