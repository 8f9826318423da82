"""What a kernel file declares of its function, so that cases outside are skipped and not failed.

A file says it in a dict of plain values beside the function, with the fields of Limits as keys (README):

    CHECK = {"head_dims": [64, 128], "lengths": 128, "layout": "blhd", "causal": "top_left"}
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from kernels.problem import AttentionProblem, Band

if TYPE_CHECKING:
    from kernels.check.case.cases import CheckCase

NAME = "CHECK"
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
    lengths: Annotated[int, Meta(ge=1)] = 1
    equal_lengths: bool = False
    dtypes: tuple[Literal["float16", "bfloat16", "float32"], ...] = ()
    masks: tuple[Literal["full", "causal", "window"], ...] = ()
    gqa: bool | None = None
    """None if nothing was said: then it must have a parameter enable_gqa."""
    scale: bool = True
    layout: Literal["bhld", "blhd"] = "bhld"
    strides: Literal["any", "last_is_1", "contiguous"] = "any"
    causal: Literal["", "bottom_right", "top_left"] = ""
    """"" if nothing was said: then unequal lengths get a mask tensor."""
    window: str = ""
    lse: Literal["natural", "log2", "none"] = "natural"
    forward_only: bool = False

    @classmethod
    def declared(cls, values: object) -> "Limits":
        """From the dict in the user's file; None stands for no dict. Raises InvalidLimits."""
        keys = cls.__annotations__
        if not isinstance(values, dict | None):
            given = type(values).__name__
            raise InvalidLimits(f"{NAME} is a {given}; expected a dict with {', '.join(keys)}")
        for key in (values or {}).keys() - keys.keys():
            raise InvalidLimits(f"{NAME} has the key {key!r}; the keys are {', '.join(keys)}")
        try:
            return msgspec.convert(values or {}, cls)
        except msgspec.ValidationError as error:  # it names what was given, what is expected, and the key
            raise InvalidLimits(f"{NAME}: {error} (README)") from error

    def excludes(self, case: "CheckCase") -> str:
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
