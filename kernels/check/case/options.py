"""The options that describe a case on the command line, and the command that repeats a case."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernels.check.case.cases import LAYOUTS, UPLOADED, USERS, CheckCase
from kernels.problem import BLOCKS, DTYPES, INPUTS, MASKS
from kernels.tool_arguments import numbers, words


def _numbers(text: str) -> list[int]:
    try:
        return numbers(text)
    except ValueError:
        accepted = "expected whole numbers separated by commas, such as 64,128"
        raise argparse.ArgumentTypeError(f"{text!r} is not accepted: {accepted}") from None


@dataclass(frozen=True)
class CaseOption:
    """One option: how it is read, what it is if another one is given, and what it is for a case."""

    name: str
    default: str
    read: Callable[[str], Any]
    help: str = ""
    choices: tuple[str, ...] | None = None
    with_file: bool = False
    """Whether a file of tensors does not say it itself."""
    value: Callable[[CheckCase], object] | None = None
    """Its value for a case, None if the case needs none; by default its field of the case or the problem."""

    @property
    def key(self) -> str:
        """Its name among the arguments."""
        return self.name.replace("-", "_")

    def of(self, case: CheckCase) -> object:
        """Its value for a case; None if the case needs none."""
        if self.value:
            return self.value(case)
        return getattr(case if hasattr(case, self.key) else case.problem, self.key)

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Let the command line take it."""
        default = f"default {self.default}" if self.default else ""
        words = "; ".join(filter(None, (self.help, default)))
        parser.add_argument(f"--{self.name}", type=self.read, choices=self.choices, help=words)


def _shape(case: CheckCase) -> str:
    return f"{case.problem.q_len}x{case.problem.kv_len}"


def _window(case: CheckCase) -> str | None:
    problem = case.problem
    return f"{problem.window_left},{problem.window_right}" if problem.mask == "window" else None


def _kv_heads(case: CheckCase) -> int | None:
    return case.problem.kv_heads if case.problem.group_size > 1 else None


def _blocks(case: CheckCase) -> str:
    return f"{case.problem.block_m},{case.problem.block_n}"


LENGTHS = 'lengths such as "256,113x203" (query x key), or "trusted" for FlashAttention\'s own list'
TILES = f"BLOCK_M,BLOCK_N for kernels that take them; each is one of {', '.join(map(str, BLOCKS))}"
CASE_OPTIONS = (
    CaseOption("shapes", "256", str, LENGTHS, value=_shape),
    CaseOption("head-dim", "64", _numbers, "one or more, such as 64,128"),
    CaseOption("dtype", "float16", words, f"some of {','.join(DTYPES)}"),
    CaseOption("mask", "full", words, f"some of {','.join(MASKS)}", with_file=True),
    CaseOption("window", "128,0", _numbers, "keys before and after the diagonal", None, True, _window),
    CaseOption("batch", "1", int),
    CaseOption("q-heads", "1", int),
    CaseOption("kv-heads", "", int, "default: as many as --q-heads", value=_kv_heads),
    CaseOption("blocks", "64,64", _numbers, TILES, with_file=True, value=_blocks),
    CaseOption("inputs", "normal", str, choices=INPUTS),
    CaseOption("seed", "0", int),
    CaseOption("layout", LAYOUTS[0], str, "of Q, K and V", LAYOUTS, with_file=True),
    CaseOption("scale", "", float, "factor on the scores; else 1 / sqrt(head_dim)", with_file=True),
)
"""Without any of them the battery is run."""
REPEATS = 3


def shell_command(case: CheckCase, kernel: str = "", file: str = "") -> str:
    """The command that repeats the check. `kernel` is the user's own file.py:function, `file` the upload."""
    parts = ["python -m kernels.check"]
    if case.kernel != UPLOADED:
        named = (kernel or "file.py:function") if case.kernel in USERS else case.kernel
        parts.append(f"--kernel {shlex.quote(named)}")
    if case.upload:
        parts.append(f"--file {shlex.quote(file or 'FILE')}")
        parts += [f"--file-axes {case.axes}"] if case.axes != "bhld" else []
    for option in CASE_OPTIONS:
        value = option.of(case)
        said = option.with_file or not case.upload
        if said and value is not None and str(value) != option.default:
            parts.append(f"--{option.name} {shlex.quote(str(value))}")
    parts += [f"--repeats {case.repeats}"] if case.repeats != REPEATS else []
    return " ".join([*parts, *([] if case.gradients else ["--forward"])])
