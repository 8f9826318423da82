"""What a kernel takes, as its file declares it or as its refusals show. Needs neither torch nor triton."""

from __future__ import annotations

import ast
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kernels.check.case.cases import CheckCase
from kernels.problem import AttentionProblem, Band, Rule

NAME = "CHECK"
OUTSIDE = "outside the limits that its file declares"
LAYOUTS_BY_STRIDES = {
    "last_is_1": ("contiguous", "transposed", "sliced", "packed", "far"),
    "contiguous": ("contiguous",),
}
"""Layouts of a case that a kernel with these strides takes; any other takes all."""


@dataclass(frozen=True)
class Limits:
    """What a kernel takes. The defaults are those of scaled_dot_product_attention.

    A file declares it in a dict of plain values beside the function, with these fields as keys (README):
    CHECK = {"head_dims": [64, 128], "lengths": 128, "layout": "blhd", "causal": "top_left"}. The battery is
    fitted to it (`fit.py`); other cases outside are skipped and not failed.
    """

    head_dims: tuple[int, ...] = ()
    lengths: Annotated[int, Meta(ge=1)] = 1
    equal_lengths: bool = False
    more_keys: bool = False
    """Whether kv_len must be at least q_len."""
    dtypes: tuple[Literal["float16", "bfloat16", "float32"], ...] = ()
    masks: tuple[Literal["full", "causal", "window"], ...] = ()
    gqa: bool | None = None
    """None if nothing was said: then it must have a parameter enable_gqa."""
    scale: bool = True
    layout: Literal["bhld", "blhd"] = "bhld"
    strides: Literal["any", "last_is_1", "contiguous"] = "any"
    causal: Literal["", "bottom_right", "top_left", "equal_lengths"] = ""
    """How the mask is aligned. "" if nothing was said: then unequal lengths get a mask tensor."""
    window: str = ""
    lse: Literal["natural", "log2", "none"] = "natural"
    forward_only: bool = False

    @classmethod
    def declared(cls, values: object) -> Limits:
        """From the dict in the user's file; None stands for no dict. Raises ValueError."""
        keys = cls.__annotations__
        if not isinstance(values, dict | None):
            given = type(values).__name__
            raise ValueError(f"{NAME} is a {given}; expected a dict with {', '.join(keys)}")
        for key in (values or {}).keys() - keys.keys():
            raise ValueError(f"{NAME} has the key {key!r}; the keys are {', '.join(keys)}")
        try:
            return msgspec.convert(values or {}, cls)
        except msgspec.ValidationError as error:  # it names what was given, what is expected, and the key
            raise ValueError(f"{NAME}: {error} (README)") from error

    @classmethod
    def in_source(cls, source: str) -> Limits:
        """What a file declares by a plain dict, read without running it; else no limits."""
        with suppress(SyntaxError, TypeError, ValueError):  # of what is wrong, who imports the file is told
            for node in reversed(ast.parse(source).body):
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == NAME:
                    return cls.declared(ast.literal_eval(node.value))
        return cls()

    def outside(self, case: CheckCase) -> dict[str, str]:
        """What of the case is outside, in words, by the name of the limit."""
        problem, layout = case.problem, case.layout.partition(":")[0]
        q_len, kv_len = problem.q_len, problem.kv_len
        lengths, unequal = f"lengths {q_len} and {kv_len}", q_len != kv_len
        heads = f"{problem.q_heads} query heads on {problem.kv_heads} key heads"
        takes = lambda given, value: not given or value in given  # noqa: E731
        found = {
            "head_dims": (f"head_dim {problem.head_dim}", not takes(self.head_dims, problem.head_dim)),
            "lengths": (lengths, q_len % self.lengths or kv_len % self.lengths),
            "equal_lengths": (lengths, self.equal_lengths and unequal),
            "more_keys": (lengths, self.more_keys and q_len > kv_len),
            "dtypes": (problem.dtype, not takes(self.dtypes, problem.dtype)),
            "masks": (f"mask {problem.mask}", not takes(self.masks, problem.mask)),
            "gqa": (heads, self.gqa is False and problem.group_size > 1),
            "scale": (f"scale {case.scale}", not self.scale and case.scale is not None),
            "causal": (f"causal {lengths}", self.causal == "equal_lengths" and problem.is_causal and unequal),
            "strides": (f"{layout} tensors", layout not in LAYOUTS_BY_STRIDES.get(self.strides, (layout,))),
        }
        return {name: words for name, (words, is_so) in found.items() if is_so}

    def words(self, name: str) -> str:
        """One of the limits of `outside` as a file declares it, such as "head_dims: 64, 128"."""
        given = getattr(self, name)
        return f"{name}: {', '.join(map(str, given)) if isinstance(given, tuple) else given}"

    def gives_is_causal(self, problem: AttentionProblem) -> bool:
        """Whether its causal mask comes as is_causal; else as a tensor, since functions differ in it."""
        return problem.is_causal and (problem.q_len == problem.kv_len or bool(self.causal))

    def band(self, problem: AttentionProblem) -> Rule:
        """The mask, and what is done to the scores, that is right for this kernel."""
        if self.causal == "top_left" and problem.is_causal:
            band = Band.of(problem.q_len, problem.kv_len, None, problem.q_len - problem.kv_len)
            return replace(problem.pattern, band=band) if problem.pattern else band
        return problem.rule
