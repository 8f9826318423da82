"""Chooses between compiled kernels and Triton's interpreter, and describes the device."""

import importlib.util
import os
import platform
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kernels.device.gpu_state import driver_version


def triton_missing() -> str | None:
    """Why the kernels cannot run here; None if they can."""
    if importlib.util.find_spec("triton") is not None:
        return None
    if sys.platform != "linux":
        return f"Triton has no wheel for {platform.system()}; recorded runs are shown"
    return "Triton is not installed; recorded runs are shown. `pip install -r requirements.txt` installs it"


def choose_backend() -> str:
    """Decide between "cuda" and "interpreter", and set TRITON_INTERPRET to match.

    "cuda" compiles the kernels; "interpreter" runs the same source on the CPU, in Triton's interpreter.

    Raises RuntimeError if triton was imported too early to choose the interpreter.
    """
    import torch

    forced = os.environ.get("TRITON_INTERPRET") == "1"
    if torch.cuda.is_available() and not forced:
        return "cuda"
    if "triton" in sys.modules and not forced:
        raise RuntimeError(
            "triton was imported before the kernels, so its interpreter is off and there is no GPU; import "
            "the kernels first (some parts of torch import triton too), or start with TRITON_INTERPRET=1"
        )
    os.environ["TRITON_INTERPRET"] = "1"
    return "interpreter"


@dataclass(frozen=True)
class DeviceInfo:
    """The device that ran something, with the versions that matter. `backend` is "cuda" or "interpreter"."""

    backend: str
    name: str
    torch: str
    triton: str
    python: str
    driver: str = ""
    sm_count: int = 0
    memory_bytes: int = 0
    compute_capability: str = ""
    """Of the GPU, such as "9.0"; "" without one, and in recordings older than this field."""


def device_info(backend: str) -> DeviceInfo:
    """Describe the device of this machine. Imports torch and triton."""
    import torch

    import triton

    versions = {
        "torch": str(torch.__version__),  # it is a subclass of str
        "triton": triton.__version__,
        "python": platform.python_version(),
    }
    if backend == "cuda":
        properties = torch.cuda.get_device_properties(0)
        return DeviceInfo(
            backend,
            properties.name,
            driver=driver_version() or "",
            sm_count=properties.multi_processor_count,
            memory_bytes=properties.total_memory,
            compute_capability=compute_capability(backend),
            **versions,
        )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return DeviceInfo(backend, _cpu_name(), memory_bytes=memory, **versions)


def compute_capability(backend: str) -> str:
    """The GPU's, such as "9.0"; "" for the interpreter. Imports torch."""
    import torch

    return "{}.{}".format(*torch.cuda.get_device_capability()) if backend == "cuda" else ""


def utc_now() -> str:
    """Date and time in UTC, ISO 8601, in whole seconds: when something was recorded."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _cpu_name() -> str:
    cpus = Path("/proc/cpuinfo")
    lines = cpus.read_text().splitlines() if cpus.exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    return f"{model or platform.machine()}, {os.cpu_count()} cores"
