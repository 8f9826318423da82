"""Slips of the sources: what is printed, what is right, and both in numbers if they can be computed.

The row is 3, 2, 5, 1 in the blocks 3, 2 and 5, 1, with the values 1, 2, 3, 4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels.lessons.softmax import online_steps, softmax

ROW = np.array([3.0, 2.0, 5.0, 1.0])
VALUES = np.array([1.0, 2.0, 3.0, 4.0])
BLOCK = 2


@dataclass(frozen=True)
class Slip:
    """One slip. The formulas are LaTeX or words."""

    source: str
    """Key of kernels.references, and the place."""
    printed: str
    right: str
    shows: str
    """Where the app shows it, "below" on the same page, or what follows from it."""


def output_of_the_row() -> float:
    """o of the row: softmax times the values."""
    return float(softmax(ROW) @ VALUES)


def output_without_the_factor_l() -> float:
    """o if the quotient so far is not multiplied by l before it is rescaled: "step by step", section 8."""
    output = 0.0
    for step in online_steps(ROW, BLOCK):
        output = (output * step.alpha + step.terms @ VALUES[step.start : step.end]) / step.l
    return float(output)


def output_with_the_factor_inverted() -> float:
    """o with exp(m' - m) instead of exp(m - m') on the old part: MSRA SH Triton Study Group 2025."""
    output, l_before = 0.0, 0.0
    for step in online_steps(ROW, BLOCK):
        factor = 1 / step.alpha if step.alpha else 0.0
        old = output * factor * l_before / step.l
        output = old + step.terms @ VALUES[step.start : step.end] / step.l
        l_before = step.l
    return float(output)


def output_with_the_mask_on_the_weights() -> float:
    """o of a query that sees the first two keys, if P is masked after softmax and not normalised again."""
    weights = softmax(ROW)
    return float(weights[:2] @ VALUES[:2])


def output_with_the_mask_on_the_scores() -> float:
    """The same with the mask on S: softmax over the keys that are seen."""
    return float(softmax(ROW[:2]) @ VALUES[:2])


def slips() -> tuple[Slip, ...]:
    """All of them, by source."""
    return (*_with_numbers(), *_msra(), *_nagaraj(), *_chu_liu_and_lin(), *_others())


def _with_numbers() -> tuple[Slip, ...]:
    right = output_of_the_row()
    return (
        Slip(
            "FlashAttention, step by step, section 8",
            r"$o' = \big(o\,e^{m-m'} + \sum e^{S-m'} V\big) / l'$: "
            f"{output_without_the_factor_l():.3f} on the row below",
            r"$o' = \big(o\,l\,e^{m-m'} + \sum e^{S-m'} V\big) / l'$, since o has been divided by l: "
            f"{right:.3f}",
            "Softmax, One pass",
        ),
        Slip(
            "MSRA SH Triton Study Group 2025, How to Fuse: Forward",
            r"factor $e^{M^{[0,1]}} / e^{M^0}$ on the old part: "
            f"{output_with_the_factor_inverted():.3f}",
            r"the inverse, $\alpha = e^{M^0 - M^{[0,1]}}$: " f"{right:.3f}",
            "Softmax, One pass",
        ),
        Slip(
            "MSRA SH Triton Study Group 2025, causal mask",
            r"mask on P, with keys $i \le j$ kept. With two keys seen, $-\infty$ in P makes O "
            f"infinite, and 0 in its place gives {output_with_the_mask_on_the_weights():.3f}",
            r"mask on S, before softmax, with keys $j \le i$ kept: "
            f"{output_with_the_mask_on_the_scores():.3f}",
            "Explore, mask causal",
        ),
    )


def _msra() -> tuple[Slip, ...]:
    return (
        Slip(
            "MSRA SH Triton Study Group 2025, How to Fuse: Backward",
            r"$dQ = dS\,K$ and $dK = dS^{\mathsf T} Q$, although S has the factor $1/\sqrt D$: "
            r"$\sqrt D$ times too large",
            r"$dQ = \tfrac{1}{\sqrt D}\,dS\,K$ and $dK = \tfrac{1}{\sqrt D}\,dS^{\mathsf T} Q$",
            "Gradients, lines dQ and dK",
        ),
        Slip(
            "MSRA SH Triton Study Group 2025, table without an L2 cache",
            "the fused kernel moves Q and O again for every key tile",
            "a program keeps its query tile and its part of O",
            "below: the fused row",
        ),
    )


def _nagaraj() -> tuple[Slip, ...]:
    return (
        Slip(
            "Nagaraj 2025, section 3.2.4",
            r"$dS = P \circ (dP - \mathrm{rowsum}(P \circ dP))$ inside one block",
            r"$D = \mathrm{rowsum}(O \circ dO)$, computed before the loop",
            "Gradients, Row sums D",
        ),
        Slip(
            "Nagaraj 2025, section 3.2.4",
            "the comment calls exp(S − lse) an unnormalized block",
            "lse holds the row sum, so this is P itself",
            "Gradients, line lse",
        ),
        Slip(
            "Nagaraj 2025, section 4.1",
            "the kernel for dK and dV fixes a query block, the one for dQ a key block",
            "the other way round, as in its own pseudocode",
            "Explore, Backward",
        ),
    )


def _chu_liu_and_lin() -> tuple[Slip, ...]:
    return (
        Slip(
            "Chu, Liu and Lin 2026, multi-head attention",
            r"scores of a head divided by $\sqrt d$",
            r"divided by $\sqrt{d/h}$, the features of that head",
            "Gradients, line heads",
        ),
        Slip(
            "Chu, Liu and Lin 2026, algorithms 3 and 4",
            r"$e^{S}$ without the row max: overflows for large scores",
            r"$e^{S - m}$, with the old sums multiplied by $\alpha$ when m grows",
            "Softmax, Subtract the max",
        ),
        Slip(
            "Chu, Liu and Lin 2026, (i, j) versus (j, i)",
            r"$4\,T_r \lvert J\rvert d$ against $3\,T_c \lvert I\rvert d$",
            r"$6\,T_r T d$ against $4\,T_c T d$: the whole pass, with the sums read back",
            "below: a backward step",
        ),
        Slip(
            "Chu, Liu and Lin 2026, eq 43",
            r"blocks $< M/4$, which eq 44 does not meet if 4d divides M",
            r"$\le M/4$",
            "below: which tiles fit; Traffic, SRAM",
        ),
        Slip(
            "Chu, Liu and Lin 2026, Memory Versus Computation",
            "3.74 µs: tera as 2⁴⁰ in the bandwidth, but as 10¹² in the FLOPs",
            "4.11 µs",
            "below: memory against computation",
        ),
    )


def _others() -> tuple[Slip, ...]:
    return (
        Slip(
            "Dao et al. 2022, algorithm 4",
            r"the forward tiles $M/4d$ for the backward pass too",
            r"eight blocks have to fit: $M/8d$ (found by Chu, Liu and Lin 2026)",
            "below: which tiles fit; Traffic, SRAM",
        ),
        Slip(
            "Making Attention I/O-Aware, Tiling",
            r"traffic of the tiled algorithm $O(Nd)$",
            r"$O(N^2 d^2 / M)$, as the same text says before; $O(Nd)$ if all of K and V fit on the chip",
            "Traffic, Growth",
        ),
    )
