"""How far a result is from the exact one, and the words of the rule that judges it. Imports no torch."""

from dataclasses import dataclass

FACTORS = {"forward": 2.0, "backward": 3.0}
"""The rule allows twice the error of standard attention in the same type, for a gradient three times."""
TIMES = {2.0: "twice", 3.0: "three times"}


@dataclass(frozen=True)
class ErrorReport:
    """Errors of one tensor against float64, and the tolerance of the rule (`kernels.oracle.rule`)."""

    max_error: float
    mean_error: float
    naive_max_error: float
    """The largest error of the low-precision reference, or the least that it counts as (`rule.compare`)."""
    tolerance: float
    """`factor` times (naive_max_error + the rounding of values of this size)."""
    factor: float = FACTORS["forward"]

    @property
    def passes(self) -> bool:
        """Whether the largest error is allowed; NaN is not."""
        return self.max_error <= self.tolerance


def rule_words(factor: float) -> str:
    """The rule in one sentence, for outputs (factor 2) or gradients (factor 3)."""
    times = TIMES[factor]
    return (
        f"FlashAttention's own rule: the largest error against float64 may be at most {times} the error of "
        f"standard attention in the same type, plus {times} the rounding of values of this size."
    )


RULE = (
    f"{rule_words(FACTORS['forward'])} For gradients it is {TIMES[FACTORS['backward']]} both, and naive "
    "attention counts as off by one rounding of its own intermediates at least. In float32 it counts for "
    "outputs as off by two standard errors of rounding P and the sums in S at least. lse may be off by twice "
    "the error of attention in float32, plus four roundings. (Dao-AILab/flash-attention, "
    "tests/test_flash_attn.py; the rules for lse and for those least errors are ours.)"
)
"""The rule for everything that a check compares."""
ANYTHING_ALLOWED = (
    "attention in float32 is NaN or infinite on these inputs although float64 is not, so any error would be "
    "allowed; check smaller numbers, or a smaller scale"
)
