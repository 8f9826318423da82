"""The kernels compiled for Hopper without a GPU: no tracing with TRACE off, no marks with LANES off, Hopper's
instructions. What takes ptxas and LLVM a minute is left to machines that have a GPU to run the kernels on.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys

import pytest
import torch

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.backward.entry import PLAIN
from kernels.device.gpus import SHARED
from kernels.primitives.tuning import gluon_is_known
from kernels.problem import AttentionProblem
from tests import ROOT
from viz.player.source import only_records

needs_gluon = pytest.mark.skipif(not gluon_is_known(), reason="this Triton's Gluon is not known")
BACKWARD_OF = {"flash2": "backward", "flash3": "flash3_backward"}
LAUNCHED = {
    name
    for name, algorithm in ALGORITHMS.items()
    if algorithm.runs_in == "triton" and (algorithm.needs is None or gluon_is_known())
}


def without_tracing(source):
    """The source without the statements that only record, which the page leaves out too."""
    dropped = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and only_records(node):
            dropped |= set(range(node.lineno, node.end_lineno + 1))
    return "\n".join(line for number, line in enumerate(source.splitlines(), 1) if number not in dropped)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """What is compiled of the kernels as they are, and of a copy of the sources without tracing."""
    stripped = tmp_path_factory.mktemp("stripped")
    shutil.copytree(
        ROOT / "kernels", stripped / "kernels", ignore=shutil.ignore_patterns("__pycache__", "*.npz")
    )
    changed = []
    kernels = (
        path for path in (stripped / "kernels" / "algorithms").rglob("*.py") if "recording" not in path.name
    )
    for path in kernels:
        source = path.read_text()
        if source.strip() != without_tracing(source).strip():
            path.write_text(without_tracing(source))
            changed.append(path.parent.name)
    launched = {ALGORITHMS[name].kernels[0].source.module.split(".")[-2] for name in LAUNCHED}
    assert set(changed) == launched | {"flash3", "flash3_backward"}  # which are read without Gluon too
    program = ROOT / "tests" / "kernels" / "algorithms" / "compile_for_hopper.py"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    runs = []
    for folder, more in ((ROOT, ["traced", *["all"] * torch.cuda.is_available()]), (stripped, [])):
        environment = os.environ | {"PYTHONPATH": str(folder)}
        runs.append(subprocess.Popen([sys.executable, program, *more], env=environment, **pipes))
    results = []
    for run in runs:
        out, errors = run.communicate()
        assert run.returncode == 0, errors[-2000:]
        results.append(json.loads(out.splitlines()[-1]))
    return results


@pytest.mark.parametrize("algorithm", sorted(LAUNCHED - set(BACKWARD_OF.values())))
def test_with_trace_and_lanes_off_the_code_is_that_of_a_source_without_them(compiled, algorithm):
    """FlashAttention-2 and 3 launch the kernels of their backward passes too."""
    as_it_is = compiled[0]
    kernels = ALGORITHMS[algorithm].kernels + ALGORITHMS[BACKWARD_OF.get(algorithm, algorithm)].kernels
    assert {kernel.source.function for kernel in kernels} <= set(as_it_is[algorithm])
    lines = [{name: sorted(code.splitlines()) for name, code in each[algorithm].items()} for each in compiled]
    assert lines[0] == lines[1]  # constants may stand in another order
    assert not any("globaltimer" in code or "%clock" in code for code in as_it_is[algorithm].values())


@pytest.mark.parametrize("algorithm", sorted(LAUNCHED))
def test_with_trace_on_every_kernel_of_the_entry_reads_the_clock(compiled, algorithm):
    """And compiles, with the numbers of a picked row if it has a figure."""
    traced = compiled[0][f"{algorithm} traced"]
    for kernel in ALGORITHMS[algorithm].kernels:
        assert "globaltimer" in traced[kernel.source.function], kernel.name


def test_hopper_gets_tensor_cores_and_bulk_copies(compiled):
    ptx = compiled[0]["PTX"]["_attn_fwd"]
    assert "wgmma.mma_async" in ptx
    assert "cp.async.bulk.tensor" in ptx


@needs_gluon
@pytest.mark.parametrize(
    ("case", "threads"),
    [
        ("64 causal 128", 384),
        pytest.param("64 full 192", 512, marks=pytest.mark.gpu),
        pytest.param("256 causal 128", 384, marks=pytest.mark.gpu),
    ],
)
def test_the_kernel_for_hopper_has_a_loading_warp_and_warpgroups_that_compute(compiled, case, threads):
    ptx, taken = compiled[0]["hopper"][case]
    assert re.search(rf"\.reqntid {threads}\b", ptx)
    assert "wgmma.mma_async" in ptx
    assert "setmaxnreg.inc" in ptx
    assert "cp.async.bulk.tensor.4d.shared" in ptx  # Q, K and V in
    assert "cp.async.bulk.tensor.4d.global" in ptx  # O out
    if case.endswith(" 128"):
        assert_draws_the_shared_memory("flash3", int(case.split()[0]), taken)


def assert_draws_the_shared_memory(algorithm, head_dim, taken):
    """The entry has all but the barriers, and what the warps hand each other at the start."""
    entry = ALGORITHMS[algorithm]
    drawn = entry.chip_bytes(entry.with_own_tiles(AttentionProblem(head_dim=head_dim)), SHARED)
    assert drawn <= taken <= drawn + 2048


@needs_gluon
@pytest.mark.parametrize("case", ["64 causal", pytest.param("128 window", marks=pytest.mark.gpu)])
def test_the_backward_sweep_for_hopper_adds_dq_from_registers_and_keeps_products_in_flight(compiled, case):
    ptx, log = compiled[0][f"_attn_bwd_hopper {case}"]
    assert re.search(rf"\.reqntid {512 if case.startswith('64') else 384}\b", ptx)
    assert "wgmma.mma_async" in ptx
    assert "setmaxnreg.inc" in ptx
    added = re.findall(r"\S*red\S*\.add\S*", ptx)
    assert set(added) == {"red.global.add.v4.f32"}  # neither by the copy engine nor one number at a time
    scores = re.findall(r"wgmma\.mma_async\S*n64k16\S*\s+\{[^}]*\},\s*(\{|%)", ptx)
    assert ("{" in scores) == case.startswith("64")  # K and V are in registers with head_dim up to 64 alone
    assert "serialized" not in log  # ptxas C7510 to C7514: each product would wait for the one before
    spilled = sum(int(size) for size in re.findall(r"(\d+) bytes spill stores", log))
    assert spilled <= (64 if case.startswith("64") else 160)  # outside of the loops, but for a number or two
    taken = compiled[0]["bytes of the backward sweep"][case]
    assert_draws_the_shared_memory("flash3_backward", int(case.split()[0]), taken)


@needs_gluon
@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ["_attn_bwd_hopper_dk_dv", "_attn_bwd_hopper_dq"])
def test_the_backward_kernels_for_hopper_with_long_rows_spill_nothing_and_add_nothing_up(compiled, kernel):
    ptx, log = compiled[0][f"{kernel} 160 window"]
    assert re.search(r"\.reqntid 384\b", ptx)
    assert "wgmma.mma_async" in ptx
    assert "setmaxnreg.inc" in ptx
    assert "cp.reduce" not in ptx
    assert not re.search(r"\b(red|atom)\.", ptx)
    assert "serialized" not in log
    assert re.findall(r"(\d+) bytes spill stores", log) == ["0"]


@pytest.mark.gpu
def test_with_lanes_on_the_backward_kernels_mark_each_product_when_it_is_done_and_spill_little_more(compiled):
    plain, marked = compiled[0]["backward lanes"]
    roles = {role.kernel: role for role in PLAIN.roles}
    assert plain.keys() == marked.keys() == roles.keys()
    for kernel, (ptx, log) in marked.items():
        loops, in_turns = 2, len(roles[kernel].marks) - 1  # whole tiles, and tiles that the mask cuts
        assert len(re.findall(r"%clock;", ptx)) == in_turns * loops + 1
        assert "%clock" not in plain[kernel][0]
        spilled = [int(re.search(r"(\d+) bytes spill stores", each)[1]) for each in (plain[kernel][1], log)]
        assert spilled[1] <= spilled[0] + 512
        events = re.findall(r"%clock;|wgmma\.commit_group|wgmma\.wait_group\S* \S+;", ptx)
        issued = [i for i, event in enumerate(events) if "commit" in event]
        assert issued
        for number in issued:  # issued, committed and waited for between two marks
            assert re.fullmatch(r"wgmma\.wait_group\S* 0;", events[number + 1])
            assert events[number - 1] == events[number + 2] == "%clock;"


@needs_gluon
@pytest.mark.gpu
@pytest.mark.parametrize("kernel", [0, 1], ids=["forward", "backward sweep"])
def test_what_lanes_show_beside_a_product_runs_beside_it_without_marks_too(compiled, kernel):
    """ptxas moves a wait for a product to the other side of exponentials, but not of a mark."""
    orders = compiled[0]["order"][kernel]
    plain, marked = (sum(map(len, re.findall("1(e*)0", each))) / each.count("e") for each in orders)
    assert abs(plain - marked) < 1 / 2
