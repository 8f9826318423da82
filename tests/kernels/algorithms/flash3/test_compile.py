"""Compiles the kernels for a GPU on a machine without one: TRACE off leaves nothing behind, and what is used is what Hopper has."""

import json
import re
import subprocess
import sys

import pytest

from kernels.primitives.tuning import gluon_is_known
from tests import ROOT


@pytest.fixture(scope="module")
def compiled():
    run = subprocess.run(
        [sys.executable, "-m", "tests.kernels.algorithms.flash3.compile_for_hopper"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("mask", ["full", "causal"])
def test_with_trace_off_the_code_is_that_of_a_source_without_tracing(compiled, mask):
    assert compiled[mask]["plain"]["ptx"] == compiled[mask]["stripped"]["ptx"]
    assert "globaltimer" not in compiled[mask]["plain"]["ptx"]
    assert "globaltimer" in compiled[mask]["traced"]["ptx"]
    assert compiled[mask]["traced"]["ptx"] != compiled[mask]["plain"]["ptx"]


@pytest.mark.parametrize("mask", ["full", "causal"])
def test_hopper_gets_tensor_cores_and_bulk_copies(compiled, mask):
    ptx = compiled[mask]["plain"]["ptx"]
    assert "wgmma.mma_async" in ptx
    assert "cp.async.bulk.tensor" in ptx


@pytest.mark.skipif(not gluon_is_known(), reason="this Triton's Gluon is not known")
def test_with_trace_off_the_kernel_for_hopper_is_that_of_a_source_without_tracing(compiled):
    assert compiled["64 causal 128"]["ptx"] == compiled["64 causal 128 stripped"]["ptx"]
    assert "globaltimer" not in compiled["64 causal 128"]["ptx"]


@pytest.mark.skipif(not gluon_is_known(), reason="this Triton's Gluon is not known")
@pytest.mark.parametrize(
    ("case", "threads"),
    [("64 full 192", 512), ("64 causal 128", 384), ("96 window 128", 384), ("128 causal 128", 384)],
)
def test_the_kernel_for_hopper_has_a_loading_warp_and_warpgroups_that_compute(compiled, case, threads):
    ptx = compiled[case]["ptx"]
    assert re.search(rf"\.reqntid {threads}\b", ptx)
    assert "wgmma.mma_async" in ptx
    assert "setmaxnreg.inc" in ptx
    assert "cp.async.bulk.tensor.4d.shared" in ptx  # Q, K and V in
    assert "cp.async.bulk.tensor.4d.global" in ptx  # O out
