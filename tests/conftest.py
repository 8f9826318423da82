"""Fixtures that every test may use. `gpu` tests are left out on machines without CUDA."""

import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import pytest

from kernels.device.backend import choose_backend
from kernels.worker.process import SLEEPY
from tests.browser.visit import CHROMIUM, FLAGS, running_app

# Before any test module: some parts of torch import triton, which reads TRITON_INTERPRET only once.
os.environ.update(SLEEPY | os.environ)  # two processes test, each with threads of torch
# Tests start some dozens of processes: each but the first finds the project's modules compiled.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
choose_backend()


def pytest_collection_modifyitems(config, items):
    for_gpu = [item for item in items if "gpu" in item.keywords]
    if not for_gpu:
        return
    import torch

    if not torch.cuda.is_available():
        config.hook.pytest_deselected(items=for_gpu)
        items[:] = [item for item in items if "gpu" not in item.keywords]


@pytest.fixture(scope="session")
def worker():
    """The worker of all files whose pages ask one: it takes three seconds of a processor to start."""
    from kernels.worker.client import WorkerClient

    client = WorkerClient()
    yield client
    client.close()


@pytest.fixture(scope="module")
def own_store(worker):
    """The pages of a test file have a store of their own, whose jobs end with the file."""
    from viz.shared import runs

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "WorkerClient", lambda kernels: worker)
        yield
        store = runs.run_store()
    for job in [*store._jobs.values()]:
        job.cancel()
    if store.client is not worker:  # the store was there before
        store.client.close()
    runs.run_store.clear()


@pytest.fixture(scope="session")
def url():
    """The address of the app, run as the README says: one for all tests of this process."""
    with running_app() as address:
        yield address


@pytest.fixture(scope="session")
def browser():
    """Chromium. If it is missing, the test is skipped, or fails if REQUIRE_BROWSER is set."""
    if not os.environ.get("REQUIRE_BROWSER"):
        pytest.importorskip("playwright", reason="playwright is not installed")
        if CHROMIUM is None:
            pytest.skip("Chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as session:
        chromium = session.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def poisoned():
    """Fill fresh tensors with NaN, so that elements which no kernel wrote are noticed."""
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    yield
    torch.use_deterministic_algorithms(False)
