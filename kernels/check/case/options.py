"""The options that describe a case on the command line, and the command that repeats a case."""

import argparse
import secrets
import shlex
from typing import Any

from kernels.check.case.cases import LAYOUTS, USERS, CheckCase
from kernels.problem import BLOCKS, DTYPES, INPUTS, LIMITS, MASKS
from kernels.tool_arguments import numbers, words


def _numbers(text: str) -> list[int]:
    try:
        return numbers(text)
    except ValueError:
        accepted = "expected whole numbers separated by commas, such as 64,128"
        raise argparse.ArgumentTypeError(f"{text!r} is not accepted: {accepted}") from None


def _seed(text: str) -> int:
    """A number, or "random" for one that nobody knows beforehand."""
    if text == "random":
        return 1 + secrets.randbelow(LIMITS["seed"][1])
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not accepted: expected a whole number, or random")
    return int(text)


LENGTHS = 'lengths such as "256,113x203" (query x key), or "trusted" for FlashAttention\'s own list'
TILES = f"for kernels that take it: one of {', '.join(map(str, BLOCKS))}"
CASE_OPTIONS: dict[str, tuple[str, Any, str]] = {
    "shapes": ("256", str, LENGTHS),
    "head_dim": ("64", _numbers, "one or more, such as 64,128"),
    "dtype": ("float16", words, f"some of {','.join(DTYPES)}"),
    "mask": ("full", words, f"some of {','.join(MASKS)}"),
    "window_left": ("128", int, "keys before the diagonal, for the masks window and sinks"),
    "window_right": ("0", int, "keys after the diagonal, for the mask window"),
    "prefix": ("4", int, "first keys that stay visible, for the masks prefix and sinks"),
    "documents": ("", str, 'lengths, such as "100 28 128", for the mask documents and for doc(q), doc(k)'),
    "expression": ("k <= q", str, "for the mask expression: a condition of q, k, h, b, doc(q), doc(k)"),
    "softcap": ("0", int, "scores s become softcap * tanh(s / softcap); 0: as they are"),
    "alibi": ("0", int, "1: ALiBi"),
    "sink_logit": ("0", int, "1: a logit per head takes part in the row sum"),
    "batch": ("1", int, ""),
    "q_heads": ("1", int, ""),
    "kv_heads": ("", int, "default: as many as --q-heads"),
    "block_m": ("64", int, TILES),
    "block_n": ("64", int, TILES),
    "inputs": ("normal", str, ""),
    "seed": ("0", _seed, "of the inputs; alone, of a battery of other cases that try the same. Or: random"),
    "layout": (LAYOUTS[0], str, f"of Q, K and V: one of {', '.join(LAYOUTS)}"),
    "scale": ("", float, "factor on the scores; else 1 / sqrt(head_dim)"),
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
