"""Bars in place of a picture: a name with a number at its end -> its size, and its parts."""

from itertools import accumulate

from kernels.algorithms import algorithm_of
from kernels.algorithms.standard.traffic import requested_ledger
from kernels.trace import Trace
from viz.shared.theme import tensor_entry

SQUARES = ("S", "P", "dP", "dS")
UNITS = {"TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3, "s": 1e3, "ms": 1, "µs": 1e-3, "ns": 1e-6}
Parts = dict[str, list[tuple[str, int]]]
"""By the name of a number: what it is the sum of, and how much each is."""


def parts_of(trace: Trace) -> Parts:
    """The bytes of each tensor, what is as large as P last; without it, it alone; each product of a tile."""
    sums = (trace.tensor_bytes_read + trace.tensor_bytes_written).sum(axis=0)
    moved = dict.fromkeys((*"QKVO", "dO"), 0) | dict(zip(trace.tensors, sums.tolist(), strict=True))
    algorithm = algorithm_of(trace)
    standard = requested_ledger(trace.problem, algorithm.direction)
    ledgers = {"bytes": moved, "standard_bytes": standard}
    parts = {name: sorted(own.items(), key=lambda each: each[0] in SQUARES) for name, own in ledgers.items()}
    for name in ledgers:
        parts[f"{name}_without_S_P"] = [each for each in parts[name] if each[0] not in SQUARES]
        parts[f"{name}_S_P"] = [each for each in parts[name] if each[0] in SQUARES]
    made: list[str] = []
    for kernel in algorithm.kernels:
        products = [each.makes[0] for each in kernel.step if each.makes and {*"QKV", "dO"} & {*each.needs}]
        made += sorted(products, key=lambda name: name not in SQUARES)
    parts["products"] = [(f"2nd {name}" if name in made[:i] else name, 1) for i, name in enumerate(made)]
    return parts


def bar_of(words: str, asked: str, parts: Parts) -> dict:
    """What is drawn of a bar; `asked` are its words with the name of the number."""
    title, _, number = words.rpartition(" ")
    count, space, unit = number.replace(",", "").partition("\N{NO-BREAK SPACE}")
    size = float(count) if count.replace(".", "").isdigit() else 0.0
    own = parts.get(asked.rpartition("{")[2].rstrip("}"), [])
    ends = [0, *accumulate(size for _, size in own)]
    drawn = [
        {"name": name, "color": tensor_entry(name), "from": start / ends[-1], "part": each / ends[-1]}
        for (name, each), start in zip(own, ends, strict=False)
        if each
    ]
    return {
        "title": title,
        "number": f"{size:#.3g}".rstrip(".") + space + unit if unit else number,
        "size": size * UNITS.get(unit, 1),
        "parts": drawn or [{"name": "", "from": 0, "part": 1}],
    }
