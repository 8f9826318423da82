"""What a kernel file declares of its function, so that cases outside are skipped and not failed.

A file says it in a dict of plain values beside the function, with any of the keys of LIMITS:

    CHECK = {"head_dims": [64, 128], "lengths": 128, "layout": "blhd", "causal": "top_left"}

This file needs neither torch nor triton.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels.problem import DTYPES, MASKS, AttentionProblem, Band

if TYPE_CHECKING:
    from kernels.check.cases import CheckCase

NAME = "CHECK"
LIMITS = {
    "head_dims": "list of head dims that it takes",
    "lengths": "a number that divides query and key length",
    "equal_lengths": "True: query and key length must be the same",
    "dtypes": f"list of {', '.join(DTYPES)}",
    "masks": f"list of {', '.join(MASKS)}",
    "gqa": "True: it takes fewer key heads without enable_gqa; False: it takes only as many as query heads",
    "scale": "False: it takes no scale but 1 / sqrt(head_dim)",
    "layout": '"bhld" (default), or "blhd" if its tensors are (batch, length, heads, head_dim)',
    "strides": '"any" (default), "last_is_1" if the last stride of its tensors must be 1, or "contiguous" if '
    "it takes no other tensors",
    "causal": '"bottom_right" (default) or "top_left": to which key the first query of is_causal belongs if '
    "the lengths differ. With either the function gets is_causal and never a mask tensor for it",
    "window": "name of its parameter for a window, which then gets (keys before, keys after) the diagonal",
    "lse": '"natural" (default), "log2", or "none" if the second tensor that it returns is something else',
    "forward_only": "True: it has no gradients",
}
"""What each key says; the words for whoever gets one wrong."""
CHOICES = {
    "layout": ("bhld", "blhd"),
    "strides": ("any", "last_is_1", "contiguous"),
    "causal": ("bottom_right", "top_left"),
    "lse": ("natural", "log2", "none"),
}

ELEMENTS = {
    "head_dims": lambda value: type(value) is int,
    "dtypes": lambda value: value in DTYPES,
    "masks": lambda value: value in MASKS,
}
"""Whether an element of a list is one that the key takes."""

LAYOUTS_BY_STRIDES = {
    "last_is_1": ("contiguous", "transposed", "sliced", "packed"),
    "contiguous": ("contiguous",),
}
"""Layouts of a case that a kernel with these strides takes; any other takes all."""


class InvalidLimits(ValueError):
    """The declaration in the user's file is not one; the message says what was found and is accepted."""


@dataclass(frozen=True)
class Limits:
    """What a kernel takes. The defaults are those of scaled_dot_product_attention."""

    head_dims: tuple[int, ...] = ()
    lengths: int = 1
    equal_lengths: bool = False
    dtypes: tuple[str, ...] = ()
    masks: tuple[str, ...] = ()
    gqa: bool | None = None
    """None if nothing was said: then it must have a parameter enable_gqa."""
    scale: bool = True
    layout: str = "bhld"
    strides: str = "any"
    causal: str = ""
    """ "bottom_right", "top_left", or "" if nothing was said: then unequal lengths get a mask tensor."""
    window: str = ""
    lse: str = "natural"
    forward_only: bool = False

    @classmethod
    def declared(cls, values: object) -> Limits:
        """From the dict in the user's file; None stands for no dict. Raises InvalidLimits."""
        if values is None:
            return cls()
        if not isinstance(values, dict):
            raise InvalidLimits(f"{NAME} is a {type(values).__name__}; expected a dict with {_accepted()}")
        for key, value in values.items():
            if key not in LIMITS:
                raise InvalidLimits(f"{NAME} has the key {key!r}; the keys are {_accepted()}")
            default = getattr(cls, key)
            switch = isinstance(default, bool) or default is None
            wanted = bool if switch else (list, tuple) if isinstance(default, tuple) else type(default)
            right = isinstance(value, wanted) and isinstance(value, bool) == switch
            if right and key in ELEMENTS:
                right = all(map(ELEMENTS[key], value))
            if (
                not right
                or (key in CHOICES and value not in CHOICES[key])
                or (key == "lengths" and value < 1)
            ):
                raise InvalidLimits(f"{NAME}[{key!r}] is {value!r}; expected {LIMITS[key]}")
        as_tuples = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
        return cls(**as_tuples)  # type: ignore[arg-type]  # checked key by key above

    def excludes(self, case: CheckCase) -> str:
        """Why the case is outside the limits; "" if it is inside."""
        problem = case.problem
        lengths = (problem.q_len, problem.kv_len)
        outside = {
            f"head_dim {problem.head_dim}": bool(self.head_dims) and problem.head_dim not in self.head_dims,
            f"lengths {lengths[0]} and {lengths[1]}": any(length % self.lengths for length in lengths)
            or (self.equal_lengths and lengths[0] != lengths[1]),
            problem.dtype: bool(self.dtypes) and problem.dtype not in self.dtypes,
            f"mask {problem.mask}": bool(self.masks) and problem.mask not in self.masks,
            f"{problem.q_heads} query heads on {problem.kv_heads} key heads": self.gqa is False
            and problem.group_size > 1,
            f"scale {case.scale}": not self.scale and case.scale is not None,
            f"{case.layout} tensors": case.layout not in LAYOUTS_BY_STRIDES.get(self.strides, (case.layout,)),
        }
        reasons = [words for words, is_outside in outside.items() if is_outside]
        return f"outside the limits that its file declares: {', '.join(reasons)}" if reasons else ""

    def gives_is_causal(self, problem: AttentionProblem) -> bool:
        """Whether its causal mask comes as is_causal; else as a tensor, since functions differ in it."""
        return problem.is_causal and (problem.q_len == problem.kv_len or bool(self.causal))

    def band(self, problem: AttentionProblem) -> Band:
        """The mask that is right for this kernel."""
        if self.causal == "top_left" and problem.is_causal:
            return Band.of(problem.q_len, problem.kv_len, None, problem.q_len - problem.kv_len)
        return problem.band


def _accepted() -> str:
    return ", ".join(LIMITS)
