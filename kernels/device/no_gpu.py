"""Answers for code that asks about a GPU while Triton's interpreter runs it on a machine without one.

Kernels tune their tiles by timing them, or choose them by the GPU's properties. In the interpreter there is
nothing to time and no GPU, but the result must be right with any choice: one is made, and said.
"""

import contextlib
import importlib
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kernels.device.interpreter import replaced

PROPERTIES = SimpleNamespace(**tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")))
CAPABILITY, GIVEN = (PROPERTIES.major, PROPERTIES.minor), PROPERTIES.name
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


def needs_gpu(message: str) -> bool:
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
    import torch

    from kernels.device.on_the_cpu import OnTheCpu

    said: list[str] = []

    def say(words: str) -> None:
        if words not in said:
            said.append(words)

    modules = ("triton.runtime.driver", "triton.runtime.autotuner", "triton.backends.compiler")
    runtime, autotuner, compiler = map(importlib.import_module, modules)
    target = compiler.GPUTarget("cuda", 10 * CAPABILITY[0] + CAPABILITY[1], PROPERTIES.warp_size)

    def told(answer: Any) -> Callable:
        def reply(*_: object, **__: object) -> Any:
            say(f"The code asks about the GPU. There is none here: it was told of one {GIVEN}.")
            return answer

        return reply

    def run(self: Any, *arguments: Any, **options: Any) -> Any:
        """In place of `Autotuner.run`, which times each configuration."""
        self.nargs = dict(zip(self.arg_names, arguments, strict=False))
        kernel, configurations = self.base_fn.__name__, self.prune_configs(options)
        chosen = self.best_config = CONFIGURATIONS.pick(kernel, configurations)
        say(
            f"@triton.autotune of {kernel}: the interpreter times nothing, so the first of its "
            f"{len(configurations)} configurations was taken ({_settings(configurations[0])})."
        )
        if chosen.pre_hook is not None:
            chosen.pre_hook({**self.nargs, **options, **chosen.all_kwargs()})
        return self.fn.run(*arguments, **options, **chosen.all_kwargs())

    driver = SimpleNamespace(
        get_current_target=told(target),
        utils=SimpleNamespace(get_device_properties=told(DRIVER_PROPERTIES)),
        get_current_device=lambda: 0,
        get_current_stream=lambda device=None: 0,
        get_active_torch_device=lambda: torch.device("cpu"),
    )
    answers: list[tuple[Any, str, Any]] = [
        (torch.cuda, "get_device_properties", told(PROPERTIES)),
        (torch.cuda, "get_device_capability", told(CAPABILITY)),
        (torch.cuda, "get_device_name", told(GIVEN)),
        (torch.cuda, "current_device", lambda: 0),
        (torch.cuda, "synchronize", lambda *_, **__: None),
        (torch.cuda, "device", lambda *_, **__: contextlib.nullcontext()),
        (runtime.driver, "_active", driver),
        (autotuner.Autotuner, "run", run),
    ]
    with contextlib.ExitStack() as stack:
        stack.enter_context(OnTheCpu())
        for owner, name, answer in answers:
            stack.enter_context(replaced(owner, name, answer))
        yield said


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
        self.settings[kernel] = [_settings(configuration) for configuration in configurations]
        return configurations[self.number % len(configurations)]


CONFIGURATIONS = Configurations()
"""Of this process, which runs one check at a time."""


def _settings(configuration: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in configuration.kwargs.items()) or "no tile sizes"
