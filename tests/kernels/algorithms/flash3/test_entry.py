"""What the entry of FlashAttention-3 says of its kernel; no GPU is needed for it."""

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.flash2.entry import FORWARD, requested_bytes
from kernels.device.gpus import GPUS, SHARED
from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS
from viz.player.source import kernel_source

ENTRY = ALGORITHMS["flash3"]
(KERNEL,) = ENTRY.kernels
PROBLEM = AttentionProblem(q_len=700, kv_len=800, head_dim=64, mask="causal")


def test_its_tiles_are_128_by_128_and_fewer_keys_for_long_rows():
    tiles = {head_dim: ENTRY.own_tiles(PROBLEM.with_(head_dim=head_dim)) for head_dim in (40, 128, 136, 256)}
    assert tiles == {40: (128, 128), 128: (128, 128), 136: (128, 64), 256: (128, 64)}


def test_the_recorder_writes_the_columns_that_the_entry_reads():
    """recording.py takes its columns from the plain kernel's entry."""
    assert KERNEL.requests == FORWARD.requests
    assert KERNEL.row_fields == FORWARD.row_fields


@pytest.mark.parametrize("head_dim", [64, 256])
@pytest.mark.parametrize("mask", ["full", "causal", "window"])
def test_it_asks_for_the_bytes_of_the_plain_kernel_if_every_query_tile_sees_a_key(mask, head_dim):
    problem = ENTRY.with_own_tiles(PROBLEM.with_(mask=mask, head_dim=head_dim, window_left=200))
    assert ENTRY.requested_bytes(problem) == requested_bytes(problem)


def test_a_query_tile_that_sees_no_key_loads_one_key_tile():
    """Of 512 queries the first 384 see none of 128 keys: three tiles."""
    problem = ENTRY.with_own_tiles(PROBLEM.with_(q_len=512, kv_len=128))
    keys_and_values = 3 * 128 * 64 * 2 * 2
    assert ENTRY.requested_bytes(problem) == requested_bytes(problem) + keys_and_values


@pytest.mark.parametrize("head_dim", ENTRY.needs.head_dims)
def test_what_it_keeps_fits_a_hopper_gpu(head_dim):
    problem = ENTRY.with_own_tiles(PROBLEM.with_(head_dim=head_dim))
    for memory, limit in GPUS["H100"].program_limits.items():
        assert 0 < ENTRY.chip_bytes(problem, memory) <= limit
    ring = {part.name: part.bytes_of(problem) for part in KERNEL.parts if part.memory == SHARED}
    assert (ring["O out"] == 0) == (head_dim > 128)  # then O leaves by way of the place of Q


def test_every_recorded_preset_is_one_that_it_takes():
    taken = [name for name, preset in PRESETS.items() if _takes(preset.problem)]
    assert list(ENTRY.recorded) == [name for name in taken if name in ENTRY.recorded]
    assert set(ENTRY.recorded) == set(taken)


def _takes(problem):
    return ENTRY.refusal(ENTRY.with_own_tiles(problem)) is None


@pytest.mark.parametrize(
    ("phase", "file", "words"),
    [
        ("load K", "loader", "load_into(rings.k"),
        ("load K", "products", "wait_for(rings.k"),
        ("QK^T", "products", "warpgroup_mma(q, k"),
        ("mask", "mask", "columns_up_to(last"),
        ("row max", "softmax", "m_new = "),
        ("exponentials", "softmax", "gl.exp2(scores"),
        ("rescale", "products", "acc * factor"),
        ("rescale", "softmax", "return l * "),
        ("load V", "loader", "load_into(rings.v"),
        ("PV", "products", "warpgroup_mma(p, v"),
    ],
)
def test_each_phase_shows_the_line_it_is_about_in_its_own_file(phase, file, words):
    lines = [line for line in kernel_source(KERNEL, KERNEL.source).step if line.phase == phase]
    assert any(words in line.text and line.file.endswith(f"/{file}.py") for line in lines)


@pytest.mark.parametrize(("head_dim", "file"), [(128, "attend"), (136, "attend_wide"), (256, "attend_wide")])
def test_of_long_rows_the_lines_that_run_are_shown(head_dim, file):
    source = kernel_source(KERNEL, KERNEL.source_for(PROBLEM.with_(head_dim=head_dim)))
    assert {path.split("/")[-1] for path in source.further_files} & {"attend.py", "attend_wide.py"} == {
        f"{file}.py"
    }
    assert [line.phase for line in source.step if "# [" in line.text and line.file.endswith(f"/{file}.py")]
    shown = {line.phase for line in source.step}
    assert shown == {line.phase for line in kernel_source(KERNEL, KERNEL.source).step}


@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
def test_q_is_drawn_in_registers_where_the_kernel_keeps_it_there(head_dim):
    problem = ENTRY.with_own_tiles(PROBLEM.with_(head_dim=head_dim))
    in_registers = [part for part in KERNEL.parts if part.memory != SHARED and part.holds == ("Q",)]
    assert sum(part.bytes_of(problem) for part in in_registers) == {96: 32768, 128: 32768}.get(head_dim, 0)
