"""Answers for code that asks about a GPU while Triton's interpreter runs it on a machine without one.

Kernels tune their tiles by timing them, or choose them by the GPU's properties. In the interpreter there is
nothing to time and no GPU, but the result must be right with any choice: one is made, and said.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from kernels.device.interpreter import replaced

CAPABILITY = (8, 0)
GIVEN = "NVIDIA A100-SXM4-80GB"
PROPERTIES = SimpleNamespace(
    name=GIVEN,
    major=CAPABILITY[0],
    minor=CAPABILITY[1],
    multi_processor_count=108,
    total_memory=80 << 30,
    warp_size=32,
    shared_memory_per_block=48 << 10,
    shared_memory_per_block_optin=163 << 10,
    shared_memory_per_multiprocessor=164 << 10,
    max_threads_per_multi_processor=2048,
    regs_per_multiprocessor=64 << 10,
    L2_cache_size=40 << 20,
)
"""What an A100 answers. CUDA C++ Programming Guide, compute capability 8.0; NVIDIA A100 white paper."""
DRIVER_PROPERTIES = {
    "max_shared_mem": PROPERTIES.shared_memory_per_block_optin,
    "max_num_regs": PROPERTIES.regs_per_multiprocessor,
    "multiprocessor_count": PROPERTIES.multi_processor_count,
    "warpSize": PROPERTIES.warp_size,
}
"""The same facts as Triton's driver names them."""

NEEDS_GPU = (
    "Torch not compiled with CUDA enabled",
    "Found no NVIDIA driver",
    "No CUDA GPUs are available",
    "not supported in interpreter mode",
    "active drivers",
)
"""Words of errors that say that there is no GPU, or that the interpreter cannot do what was asked."""

Say = Callable[[str], None]


def needs_gpu(message: str) -> bool:
    """Whether an error says that the code needs a GPU."""
    return any(words in message for words in NEEDS_GPU)


def refuse_libdevice() -> None:
    """Make the functions of libdevice say that they need a GPU, in this process: its interpreter has none.

    By themselves they return None, or ask whether @triton.jit was forgotten.
    """
    from triton.language.extra import libdevice
    from triton.language.extra.cuda import libdevice as libdevice_of_cuda

    for module in (libdevice, libdevice_of_cuda):
        for name, function in list(vars(module).items()):
            if callable(function) and getattr(function, "__module__", "") == module.__name__:
                setattr(module, name, _refusing(f"libdevice.{name}"))


def _refusing(name: str) -> Callable:
    def refuse(*_: object, **__: object) -> None:
        raise NotImplementedError(f"{name} is not supported in interpreter mode")

    return refuse


@contextlib.contextmanager
def answers_without_gpu() -> Iterator[list[str]]:
    """Answer questions about a GPU while the body runs. The list says, once each, what was answered."""
    said: list[str] = []

    def say(words: str) -> None:
        if words not in said:
            said.append(words)

    with contextlib.ExitStack() as stack:
        _answer_torch(stack, say)
        _answer_triton(stack, say)
        _choose_configurations(stack, say)
        yield said


def _answering(say: Say, answer: Any) -> Callable:
    def reply(*_: object, **__: object) -> Any:
        say(f"The code asks about the GPU. There is none here: it was told of one {GIVEN}.")
        return answer

    return reply


def _answer_torch(stack: contextlib.ExitStack, say: Say) -> None:
    import torch

    answers: dict[str, Callable] = {
        "get_device_properties": _answering(say, PROPERTIES),
        "get_device_capability": _answering(say, CAPABILITY),
        "get_device_name": _answering(say, GIVEN),
        "current_device": lambda: 0,
        "synchronize": lambda *_, **__: None,
        "device": lambda *_, **__: contextlib.nullcontext(),
    }
    for name, answer in answers.items():
        stack.enter_context(replaced(torch.cuda, name, answer))


class _Driver:
    """What kernels ask of `triton.runtime.driver.active`."""

    def __init__(self, say: Say) -> None:
        compiler: Any = importlib.import_module("triton.backends.compiler")
        target = compiler.GPUTarget("cuda", 10 * CAPABILITY[0] + CAPABILITY[1], PROPERTIES.warp_size)
        self.get_current_target = _answering(say, target)
        self.utils = SimpleNamespace(get_device_properties=_answering(say, DRIVER_PROPERTIES))

    def get_current_device(self) -> int:
        """The first."""
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        """The default one."""
        return 0

    def get_active_torch_device(self) -> Any:
        """Where the tensors are."""
        import torch

        return torch.device("cpu")


def _answer_triton(stack: contextlib.ExitStack, say: Say) -> None:
    runtime: Any = importlib.import_module("triton.runtime.driver")
    if hasattr(runtime.driver, "_active"):
        stack.enter_context(replaced(runtime.driver, "_active", _Driver(say)))


class Configurations:
    """Which configuration `@triton.autotune` takes in the interpreter, and how many there are."""

    def __init__(self) -> None:
        self.number = 0
        """Counted from 0, and over from the start in a kernel that has fewer."""
        self.settings: dict[str, list[str]] = {}
        """By kernel: what each of its configurations sets, since the last `begin`."""

    def begin(self) -> None:
        """A check begins: nothing was launched yet, and the first configuration is taken."""
        self.number, self.settings = 0, {}

    def pick(self, kernel: str, configurations: list) -> Any:
        """The configuration to take."""
        self.settings[kernel] = [_settings(configuration) for configuration in configurations]
        return configurations[self.number % len(configurations)]


CONFIGURATIONS = Configurations()
"""Of this process, which runs one check at a time."""


def _choose_configurations(stack: contextlib.ExitStack, say: Say) -> None:
    """`@triton.autotune` times nothing, and takes the configuration that CONFIGURATIONS picks."""
    autotuner: Any = importlib.import_module("triton.runtime.autotuner")

    def run(self: Any, *arguments: Any, **options: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, arguments, strict=False))
        configurations = self.prune_configs(options)
        name = self.base_fn.__name__
        chosen = self.best_config = CONFIGURATIONS.pick(name, configurations)
        say(
            f"@triton.autotune of {name}: the interpreter times nothing, so the first of its "
            f"{len(configurations)} configurations was taken ({_settings(configurations[0])})."
        )
        if chosen.pre_hook is not None:
            chosen.pre_hook({**self.nargs, **options, **chosen.all_kwargs()})
        return self.fn.run(*arguments, **options, **chosen.all_kwargs())

    stack.enter_context(replaced(autotuner.Autotuner, "run", run))


def _settings(configuration: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in configuration.kwargs.items()) or "no tile sizes"
