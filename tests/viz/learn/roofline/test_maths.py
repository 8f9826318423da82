"""Roofline numbers against the sources they are from."""

import pytest

from kernels.algorithms import run_traced
from kernels.algorithms.standard.traffic import standard_stages
from kernels.device.gpus import GPUS
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import compulsory_bytes
from viz.learn.roofline import maths as lesson

PROBLEM = AttentionProblem(q_len=1024, kv_len=1024, head_dim=64)
A100 = GPUS["A100"]


def test_memory_against_compute_in_the_example_of_the_source():
    example = lesson.memory_against_compute(PROBLEM)
    assert example.compute_seconds(A100) * 1e6 == pytest.approx(0.86, abs=0.005)
    assert example.memory_seconds(A100) * 1e6 == pytest.approx(4.11, abs=0.005)


def test_sram_of_the_a100_is_about_20_mb_at_about_19_tb_a_second():
    """Making Attention I/O-Aware: 20 MB, 19 TB/s, 10 times HBM's bandwidth, nearly 4000 times smaller."""
    assert A100.sram_bytes == pytest.approx(20e6, rel=0.1)
    assert A100.sram_bandwidth == pytest.approx(19e12, rel=0.05)
    assert A100.sram_bandwidth / A100.hbm_bandwidth == pytest.approx(10, rel=0.1)
    assert A100.hbm_bytes / A100.sram_bytes == pytest.approx(4000, rel=0.1)
    assert [gpu.shared_bytes_per_program >> 10 for gpu in GPUS.values()] == [163, 227, 227, 227]


def test_with_a_perfect_cache_steps_are_the_standard_stages_and_the_compulsory_bytes():
    *three, fused = lesson.steps(PROBLEM, "perfect")
    for step, stage in zip(three, standard_stages(PROBLEM), strict=True):
        assert (step.bytes, step.flops) == (stage.bytes_moved, stage.flops)
    assert (fused.bytes, fused.flops) == (compulsory_bytes(PROBLEM), sum(step.flops for step in three))
    assert (three[0].bound_by(A100), fused.bound_by(A100)) == ("memory", "compute")
    assert three[0].seconds(A100) == three[0].bytes / A100.hbm_bandwidth
    assert fused.seconds(A100) == fused.flops / A100.fp16_flops


def test_without_a_cache_intensities_are_those_of_the_study_group_and_bytes_those_of_the_kernels():
    """MSRA SH Triton Study Group 2025, tiles of D: PV about E = T_Q T_K / (T_Q + T_K), softmax C / 2.

    S is below E there. Here a program keeps its query tile, so S has the intensity of PV.
    """
    score, softmax, product, fused = lesson.steps(PROBLEM, "none")
    assert score.intensity == product.intensity == pytest.approx(64 * 64 / 128, rel=0.05)
    assert softmax.intensity == 3 / 4
    assert fused.intensity > 64 * 64 / 128
    small = PROBLEM.with_(q_len=96, kv_len=128, head_dim=16, block_m=32, block_n=32)
    *three, fused = lesson.steps(small, "none")
    assert fused.bytes == run_traced(small, "flash2").total_bytes
    assert sum(step.bytes for step in three) == run_traced(small, "standard").total_bytes


def test_other_operations_have_the_work_and_traffic_of_their_definitions():
    rows, d = 4096, 128
    elementwise, norm, convolution, product = lesson.other_operations(PROBLEM.with_(q_len=rows, head_dim=d))
    assert elementwise.intensity == pytest.approx(0.25)
    assert norm.flops == 8 * elementwise.flops
    assert (convolution.flops, convolution.elements) == (2 * 9 * rows * d * d, 2 * rows * d + 9 * d * d)
    assert (product.flops, product.elements) == (8 * rows * d * d, 5 * rows * d + 4 * d * d)
    limits = [step.bound_by(A100) for step in (elementwise, norm, convolution)]
    assert limits == ["memory", "memory", "compute"]
