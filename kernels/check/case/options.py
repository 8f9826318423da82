"""The options that describe a case on the command line, and the command that repeats a case."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernels.check.case.cases import LAYOUTS, UPLOADED, USERS, CheckCase
from kernels.problem import BLOCKS, DTYPES, INPUTS, MASKS


def _words(text: str) -> list[str]:
    return text.split(",")


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        accepted = "expected whole numbers separated by commas, such as 64,128"
        raise argparse.ArgumentTypeError(f"{text!r} is not accepted: {accepted}") from None


def _window(case: CheckCase) -> str | None:
    problem = case.problem
    return f"{problem.window_left},{problem.window_right}" if problem.mask == "window" else None


@dataclass(frozen=True)
class CaseOption:
    """One option: how it is read, what it is if another one is given, and what it is for a case."""

    name: str
    default: str
    read: Callable[[str], Any]
    of: Callable[[CheckCase], object]
    """Its value for a case; None if the case needs none."""
    help: str = ""
    choices: tuple[str, ...] | None = None
    with_file: bool = False
    """Whether a file of tensors does not say it itself."""

    @property
    def key(self) -> str:
        """Its name among the arguments."""
        return self.name.replace("-", "_")

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Let the command line take it."""
        default = f"default {self.default}" if self.default else ""
        words = "; ".join(filter(None, (self.help, default)))
        parser.add_argument(f"--{self.name}", type=self.read, choices=self.choices, help=words)


CASE_OPTIONS = (
    CaseOption(
        "shapes",
        "256",
        str,
        lambda case: f"{case.problem.q_len}x{case.problem.kv_len}",
        'lengths such as "256,113x203" (query x key), or "trusted" for FlashAttention\'s own list',
    ),
    CaseOption("head-dim", "64", _numbers, lambda case: case.problem.head_dim, "one or more, such as 64,128"),
    CaseOption("dtype", "float16", _words, lambda case: case.problem.dtype, f"some of {','.join(DTYPES)}"),
    CaseOption(
        "mask", "full", _words, lambda case: case.problem.mask, f"some of {','.join(MASKS)}", with_file=True
    ),
    CaseOption("window", "128,0", _numbers, _window, "keys before and after the diagonal", None, True),
    CaseOption("batch", "1", int, lambda case: case.problem.batch),
    CaseOption("q-heads", "1", int, lambda case: case.problem.q_heads),
    CaseOption(
        "kv-heads",
        "",
        int,
        lambda case: case.problem.kv_heads if case.problem.group_size > 1 else None,
        "default: as many as --q-heads",
    ),
    CaseOption(
        "blocks",
        "64,64",
        _numbers,
        lambda case: f"{case.problem.block_m},{case.problem.block_n}",
        f"BLOCK_M,BLOCK_N for kernels that take them; each is one of {', '.join(map(str, BLOCKS))}",
        with_file=True,
    ),
    CaseOption("inputs", "normal", str, lambda case: case.problem.inputs, choices=INPUTS),
    CaseOption("seed", "0", int, lambda case: case.problem.seed),
    CaseOption("layout", LAYOUTS[0], str, lambda case: case.layout, "of Q, K and V", LAYOUTS, True),
    CaseOption(
        "scale",
        "",
        float,
        lambda case: case.scale,
        "factor on the scores; else 1 / sqrt(head_dim)",
        with_file=True,
    ),
)
"""Without any of them the battery is run."""
REPEATS = 3


def shell_command(case: CheckCase, kernel: str = "", file: str = "") -> str:
    """The command that repeats the check. `kernel` is the user's own file.py:function, `file` the upload."""
    words = ["python -m kernels.check"]
    if case.kernel != UPLOADED:
        named = (kernel or "file.py:function") if case.kernel in USERS else case.kernel
        words.append(f"--kernel {shlex.quote(named)}")
    if case.upload:
        words.append(f"--file {shlex.quote(file or 'FILE')}")
        words += [f"--file-axes {case.axes}"] if case.axes != "bhld" else []
    for option in CASE_OPTIONS:
        value = option.of(case)
        said = option.with_file or not case.upload
        if said and value is not None and str(value) != option.default:
            words.append(f"--{option.name} {shlex.quote(str(value))}")
    words += [f"--repeats {case.repeats}"] if case.repeats != REPEATS else []
    return " ".join([*words, *([] if case.gradients else ["--forward"])])
