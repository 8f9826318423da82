"""Plain attention in torch: naive as users write it, the float64 oracle, and the rule by which a result is right."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernels.oracle.report import ErrorReport
from kernels.problem import AttentionProblem
from kernels.problem.inputs import make_d_output, make_inputs
from kernels.problem.tiles import band
from kernels.trace.trace import Trace

CHUNK_BYTES = 256 << 20
"""Scores that the oracle holds at once when only output and lse are wanted."""


def visible_mask(
    q_len: int,
    kv_len: int,
    left: int,
    right: int,
    first_row: int = 0,
    rows: int | None = None,
    device: str | torch.device = "cpu",
) -> torch.Tensor:
    """bool (rows, kv_len): which keys the queries from `first_row` on see; the band of kernels.problem.tiles, aligned bottom right."""
    count = q_len - first_row if rows is None else rows
    diagonal = torch.arange(first_row, first_row + count, device=device)[:, None] + (kv_len - q_len)
    keys = torch.arange(kv_len, device=device)[None, :]
    return (keys <= diagonal + right) & (keys >= diagonal - left)


def naive_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, scale: float, left: int, right: int
) -> torch.Tensor:
    """Standard attention with S and P materialised in the type of the inputs (Dao et al. 2022, algorithm 0).

    query (batch, q_heads, q_len, head_dim), key and value (batch, kv_heads, kv_len, head_dim). A row without a key gives 0.
    """
    group = query.shape[1] // key.shape[1]
    if group > 1:
        key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
    q_len, kv_len = query.shape[2], key.shape[2]
    scores = query @ key.transpose(-2, -1) * scale
    if min(left, right) >= q_len + kv_len:
        return torch.softmax(scores, dim=-1) @ value
    visible = visible_mask(q_len, kv_len, left, right, device=query.device)
    weights = torch.softmax(scores.masked_fill_(~visible, float("-inf")), dim=-1)
    if q_len > kv_len + right:  # the first rows see no key: softmax of nothing but -inf is NaN
        weights = weights.masked_fill(~visible, 0.0)  # not in place: autograd needs the softmax as it was
    return weights @ value


@dataclass(frozen=True)
class Oracle:
    """Attention in float64 with every intermediate. `visible` is (q_len, kv_len); the others are (batch, q_heads, ...)."""

    scores: torch.Tensor
    """(..., q_len, kv_len): scaled scores, -inf where the query does not see the key."""
    visible: torch.Tensor
    weights: torch.Tensor
    """(..., q_len, kv_len): softmax of the scores."""
    output: torch.Tensor
    """(..., q_len, head_dim)"""
    lse: torch.Tensor
    """(..., q_len)"""
    value: torch.Tensor
    """(..., kv_len, head_dim): one copy for every query head."""

    def after_keys(
        self, head: tuple[int, int], rows: slice, keys: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Row max m, row sum l and accumulator of the online softmax once the keys of the index tensor `keys` were seen."""
        scores = self.scores[head][rows][:, keys]
        m = (
            scores.max(dim=-1).values
            if len(keys)
            else torch.full(scores.shape[:1], float("-inf"), dtype=torch.float64)
        )
        exponentials = torch.exp(scores - torch.where(m == float("-inf"), 0.0, m)[:, None])
        return m, exponentials.sum(dim=-1), exponentials @ self.value[head][keys]


def oracle(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, scale: float, left: int, right: int
) -> Oracle:
    """The float64 oracle on the CPU. Holds (q_len, kv_len) in float64 for every head several times: for small problems."""
    query, key, value = (tensor.detach().cpu().double() for tensor in (query, key, value))
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
    visible = visible_mask(query.shape[2], key.shape[2], left, right)
    scores = (query @ key.transpose(-2, -1) * scale).masked_fill(~visible, float("-inf"))
    weights = torch.softmax(scores, dim=-1).masked_fill(~visible, 0.0)
    return Oracle(scores, visible, weights, weights @ value, torch.logsumexp(scores, dim=-1), value)


def attention_by_rows(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    scale: float,
    left: int,
    right: int,
    dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and lse of standard attention computed in `dtype`, a block of rows at a time: for problems of any length.

    float64 gives the exact result, the type of the inputs the low-precision reference that a tolerance comes from.
    Both results are of `dtype`, on the device of the inputs.
    """
    batch, q_heads, q_len, _ = query.shape
    kv_len, group = key.shape[2], q_heads // key.shape[1]
    rows = max(1, min(q_len, CHUNK_BYTES // (8 * kv_len)))
    out = torch.empty(query.shape, dtype=dtype, device=query.device)
    lse = torch.empty(query.shape[:3], dtype=dtype, device=query.device)
    for b in range(batch):
        for h in range(q_heads):
            keys, values = key[b, h // group].to(dtype), value[b, h // group].to(dtype)
            for first in range(0, q_len, rows):
                block = query[b, h, first : first + rows].to(dtype)
                visible = visible_mask(q_len, kv_len, left, right, first, len(block), query.device)
                scores = (block @ keys.T * scale).masked_fill_(~visible, float("-inf"))
                weights = torch.softmax(scores, dim=-1).masked_fill_(~visible, 0.0)
                lse[b, h, first : first + rows] = torch.logsumexp(scores, dim=-1)
                out[b, h, first : first + rows] = weights @ values
    return out, lse


def gradients_by_heads(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    d_out: torch.Tensor,
    *,
    scale: float,
    left: int,
    right: int,
    dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of query, key and value computed in `dtype` throughout, one head at a time (Chu, Liu and Lin 2026, eq 15 to 24).

    d_out is shaped as query. Holds a few (q_len, kv_len) matrices of `dtype`.
    """
    group = query.shape[1] // key.shape[1]
    grads = tuple(
        torch.zeros(tensor.shape, dtype=dtype, device=query.device) for tensor in (query, key, value)
    )
    visible = visible_mask(query.shape[2], key.shape[2], left, right, device=query.device)
    for b in range(query.shape[0]):
        for h in range(query.shape[1]):
            q, k, v, do = (
                tensor.to(dtype)
                for tensor in (query[b, h], key[b, h // group], value[b, h // group], d_out[b, h])
            )
            scores = (q @ k.T * scale).masked_fill_(~visible, float("-inf"))
            p = torch.softmax(scores, dim=-1).masked_fill_(~visible, 0.0)
            delta = ((p @ v) * do).sum(dim=-1, keepdim=True)
            ds = p * (do @ v.T - delta) * scale
            grads[0][b, h] = ds @ k
            grads[1][b, h // group] += ds.T @ q
            grads[2][b, h // group] += p.T @ do
    return grads


def error_report(
    out: torch.Tensor, exact: torch.Tensor, low_precision: torch.Tensor, factor: float = 2.0
) -> ErrorReport:
    """Judge `out` by the rule of FlashAttention's own tests (tests/test_flash_attn.py).

    `exact` is the float64 result, `low_precision` the naive result in the type of the inputs. The absolute term is what
    adding and subtracting 0.3 costs in that type. NaN or infinity must stand where the exact result has it: elsewhere
    the error counts as infinite.
    """
    error = _error(out, exact)
    naive_error = _error(low_precision, exact)
    rounded = exact.to(low_precision.dtype)
    rounding = _error(rounded + 0.3 - 0.3, rounded.double())
    tolerance = factor * (_max(naive_error) + _max(rounding))
    return ErrorReport(
        _max(error), float(error.mean()) if error.numel() else 0.0, _max(naive_error), tolerance
    )


def _error(out: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """|out - exact| in float64; 0 where both are the same infinity or both NaN, infinite where only one is finite."""
    out, exact = out.double(), exact.double()
    same = (out == exact) | (out.isnan() & exact.isnan())
    return torch.where(same, 0.0, (out - exact).abs().nan_to_num(nan=float("inf"), posinf=float("inf")))


def _max(error: torch.Tensor) -> float:
    return float(error.max()) if error.numel() else 0.0


def judge(
    problem: AttentionProblem, out: torch.Tensor, inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
) -> ErrorReport:
    """The error report of an output of the problem, computed on the device of the inputs."""
    left, right = band(problem)
    exact, _ = attention_by_rows(*inputs, scale=problem.scale, left=left, right=right, dtype=torch.float64)
    low_precision, _ = attention_by_rows(
        *inputs, scale=problem.scale, left=left, right=right, dtype=inputs[0].dtype
    )
    return error_report(out.to(exact.device), exact, low_precision)


def judge_gradients(
    problem: AttentionProblem,
    gradients: tuple[torch.Tensor, ...],
    inputs: tuple[torch.Tensor, ...],
    d_out: torch.Tensor,
) -> dict[str, ErrorReport]:
    """Error reports of dQ, dK and dV of the problem, computed on the device of the inputs. The rule allows gradients three times the naive error."""
    left, right = band(problem)
    mask = {"scale": problem.scale, "left": left, "right": right}
    exact = gradients_by_heads(*inputs, d_out, **mask, dtype=torch.float64)
    low_precision = gradients_by_heads(*inputs, d_out, **mask, dtype=inputs[0].dtype)
    names = ("dQ", "dK", "dV")
    return {
        name: error_report(ours.to(e.device), e, low, factor=3.0)
        for name, ours, e, low in zip(names, gradients, exact, low_precision, strict=True)
    }


def judge_trace(trace: Trace) -> ErrorReport:
    """The error report of what a traced run computed: its output, or of a backward pass the gradient that is furthest off."""
    device = "cuda" if trace.device.backend == "cuda" else "cpu"
    inputs = make_inputs(trace.problem, device)
    if trace.d_query is None:
        return judge(trace.problem, torch.from_numpy(trace.output), inputs)
    gradients = tuple(torch.from_numpy(array) for array in (trace.d_query, trace.d_key, trace.d_value))
    reports = judge_gradients(trace.problem, gradients, inputs, make_d_output(trace.problem, device))
    return max(
        reports.values(),
        key=lambda report: report.max_error / report.tolerance if report.tolerance else report.max_error,
    )
