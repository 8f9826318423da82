"""The environment in which a worker process starts."""

from pathlib import Path

import pytest

from kernels.worker.process import SLEEPY, WorkerProcess

(NAME,) = SLEEPY


@pytest.mark.parametrize(("given", "used"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_its_threads_sleep_while_they_wait_unless_the_user_wants_otherwise(monkeypatch, given, used):
    monkeypatch.delenv(NAME, raising=False)
    if given:
        monkeypatch.setenv(NAME, given)
    process = WorkerProcess([])
    environment = Path(f"/proc/{process.process_id}/environ").read_text().split("\0")
    process.kill()
    process.wait()
    assert f"{NAME}={used}" in environment
