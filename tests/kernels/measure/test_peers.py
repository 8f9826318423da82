"""A peer from a package of its own: measured if it is installed, refused in words if not."""

import sys
from dataclasses import replace
from types import ModuleType

import pytest
import torch

from kernels.check.case.cases import kernels_on
from kernels.measure import measure as measuring
from kernels.measure import peers, sweep
from kernels.measure.peers import PEERS
from kernels.problem import AttentionProblem

PROBLEM = AttentionProblem(q_len=32, kv_len=48, mask="causal")


@pytest.fixture
def installed(monkeypatch):
    """Sets the version of flash-attn-4 that is found, "" for none."""

    def set_version(version):
        monkeypatch.setattr(peers, "package_version", {"flash-attn-4": version}.__getitem__)

    return set_version


def test_a_peer_from_a_package_is_one_of_them_if_it_is_there_else_offered_nowhere_and_refused(installed):
    for version in ("", "4.0.0"):
        installed(version)
        assert ("fa4" in measuring._peer_names(None, "cuda")) == bool(version)
        assert ("fa4" in kernels_on("cuda", 0)) == bool(version)
        assert "fa4" not in measuring._peer_names(None, "interpreter")
        points = sweep.sweep_points()
        assert [point for point in points if "fa4" in point.peers] == (points[:72] if version else [])
    assert len(sweep._compile_jobs(points)) == 12 + 12 + 12
    installed("")
    with pytest.raises(NotImplementedError, match="pip install --pre flash-attn-4"):
        PEERS["fa4"].make(PROBLEM)


@pytest.mark.parametrize(
    ("mask", "causal", "window"),
    [("full", False, (None, None)), ("causal", True, (None, None)), ("window", False, (7, 2))],
)
def test_flash_attention_4_gets_the_problem_in_its_own_order_of_axes(
    installed, monkeypatch, mask, causal, window
):
    """The package itself needs a GPU: what it is called with is written down in its place."""
    installed("4.0.0")
    calls, module = [], ModuleType("flash_attn.cute")

    def flash_attn_func(query, key, value, **options):
        calls.append(([tuple(tensor.shape) for tensor in (query, key, value)], options))
        return query, None

    module.flash_attn_func = flash_attn_func
    monkeypatch.setitem(sys.modules, "flash_attn", ModuleType("flash_attn"))
    monkeypatch.setitem(sys.modules, "flash_attn.cute", module)
    problem = PROBLEM.with_(mask=mask, window_left=7, window_right=2, batch=3, q_heads=4, kv_heads=2)
    query, key = torch.zeros(problem.q_shape), torch.zeros(problem.kv_shape)
    out = PEERS["fa4"].make(problem)(query, key, key)
    assert tuple(out.shape) == problem.q_shape
    options = {"softmax_scale": problem.scale, "causal": causal, "window_size": window}
    assert calls == [([(3, 32, 4, 64), (3, 48, 2, 64), (3, 48, 2, 64)], options)]


def test_a_result_names_the_version_of_the_library_that_it_is_from(monkeypatch):
    monkeypatch.setitem(PEERS, "naive", replace(PEERS["naive"], library_version=lambda: "9.19.0"))
    problem = PROBLEM.with_(dtype="float32", mask="full", kv_len=32)
    measurement = measuring.measure(problem, ["naive"], budget_s=0.01)
    assert measurement.result("naive").version == "9.19.0"
