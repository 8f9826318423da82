"""The GPU of this machine beside those of the list."""

from __future__ import annotations

from kernels.device.gpus import GPUS, gpu_named
from viz.shared import runs
from viz.shared.formats import format_bytes, format_flops, format_kib, significant


def gpu_here(store: runs.RunStore | None) -> str:
    """Name of this machine's GPU; "" if it has none, or if the worker has not said yet."""
    device = store.client.device if store else None
    return device.name if device and runs.backend(store) == "cuda" else ""


def gpu_here_words(store: runs.RunStore | None) -> str | None:
    """Which GPU of the list this machine has."""
    name = gpu_here(store)
    if not name:
        return None
    if listed := gpu_named(name):
        return f"This machine: {name}, in this list as {listed.name}."
    return f"This machine: {name}, which is not in this list; the Measure page measures its ceilings."


def memory_table(name: str) -> str:
    """Memories, speeds and ridge of every GPU; the one with this `name` is marked."""
    rows = [
        "| | HBM | HBM bandwidth | L2 | SRAM, all SMs | registers per SM | per program | SRAM bandwidth "
        "| peak, float16 | ridge, FLOP/B |",
        "|:--|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    own = gpu_named(name)
    for gpu in GPUS.values():
        mark = " (this machine)" if gpu == own else ""
        rows.append(
            f"| **{gpu.name}**{mark} | {format_bytes(gpu.hbm_bytes)} | {format_bytes(gpu.hbm_bandwidth)}/s "
            f"| {format_bytes(gpu.l2_bytes)} "
            f"| {gpu.sm_count} × {format_kib(gpu.l1_bytes_per_sm)} = {format_bytes(gpu.sram_bytes)} "
            f"| {format_kib(gpu.register_bytes_per_sm)} | {format_kib(gpu.shared_bytes_per_program)} "
            f"| {format_bytes(gpu.sram_bandwidth)}/s | {format_flops(gpu.fp16_flops)}/s "
            f"| {significant(gpu.balance)} |"
        )
    return "\n".join(rows)
