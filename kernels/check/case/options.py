"""The options that describe a case on the command line, and the command that repeats a case."""

import argparse
import secrets
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernels.check.case.cases import LAYOUTS, USERS, CheckCase
from kernels.problem import BLOCKS, DTYPES, INPUTS, LIMITS, MASKS
from kernels.tool_arguments import numbers, words


def _seed(text: str) -> int:
    """A number, or "random" for one that nobody knows beforehand."""
    if text == "random":
        return 1 + secrets.randbelow(LIMITS["seed"][1])
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not accepted: expected a whole number, or random")
    return int(text)


READERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("shapes", "documents", "expression", "inputs", "layout"), str),
    **{"head_dim": numbers, "dtype": words, "mask": words, "seed": _seed, "scale": float},
}
"""Of the options that are not one whole number."""
_NAMES = {"dtypes": ",".join(DTYPES), "masks": ",".join(MASKS), "layouts": ", ".join(LAYOUTS)}
_FILE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
CASE_OPTIONS: dict[str, tuple[str, Callable[[str], Any], str]] = {
    name: (default, READERS.get(name, int), about.format(blocks=", ".join(map(str, BLOCKS)), **_NAMES))
    for name, (default, about) in _FILE.items()
}
"""By name: the default if another one is given, how it is read, and help. Without any, or with a seed alone,
the battery is run."""
CHOICES = {"inputs": INPUTS}
PATTERN = ("prefix", "documents", "expression", "softcap", "alibi", "sink_logit")
MASKING = ("window_left", "window_right", *PATTERN)
OF_PROBLEM = ("batch", "q_heads", "kv_heads", "inputs", "seed", "block_m", "block_n", *MASKING)
"""Fields of the problem, by their names."""
REPEATS = 3


def add_case_options(parser: argparse.ArgumentParser) -> None:
    """Let the command line take them; None stands for one that is not given."""
    for name, (default, read, about) in CASE_OPTIONS.items():
        help_words = "; ".join(filter(None, (about, default and f"default {default}")))
        parser.add_argument(option(name), type=read, choices=CHOICES.get(name), help=help_words)


def option(name: str) -> str:
    """As it is written on the command line."""
    return f"--{name.replace('_', '-')}"


def shell_command(case: CheckCase, kernel: str = "") -> str:
    """The command that repeats the check. `kernel` is the user's own file.py:function."""
    named, problem = (kernel or "file.py:function") if case.kernel in USERS else case.kernel, case.problem
    parts = [f"python -m kernels.check --kernel {shlex.quote(named)}"]
    values = problem.as_dict() | {
        "shapes": f"{problem.q_len}x{problem.kv_len}",
        "kv_heads": problem.kv_heads if problem.group_size > 1 else None,
        "layout": case.layout,
        "scale": case.scale,
    }
    for name in CASE_OPTIONS:
        if values[name] is not None and str(values[name]) != CASE_OPTIONS[name][0]:
            parts.append(f"{option(name)} {shlex.quote(str(values[name]))}")
    parts += [f"--repeats {case.repeats}"] if case.repeats != REPEATS else []
    parts += ["--require-kernel"] if case.requires_kernel else []
    return " ".join([*parts, *([] if case.gradients else ["--forward"])])
