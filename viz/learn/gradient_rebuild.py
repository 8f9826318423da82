"""The opening of the Gradients chapter: why P is not kept, and how lse gives it back."""

from __future__ import annotations

import numpy as np
import streamlit as st

from kernels.lessons.gradients import GradientLesson, derived
from kernels.lessons.predictions import weight_of_lse
from viz.learn.figures.matrices import Matrix, matrices_html
from viz.learn.predict import type_in
from viz.shared import theme
from viz.shared.formats import format_number
from viz.shared.glossary import say

PREDICTED_ROW = 0
"""Row of the default lesson of which a weight is to be predicted."""


def rebuild_panel(palette: theme.Palette) -> None:
    """The failure, storing P, and its fix: P from S and lse, with one weight to predict."""
    lines = derived(GradientLesson())
    scores, lse = lines["S"], lines["lse"]
    say(
        "Training goes through attention twice: [[forward]] to O, and [[backward]], from the "
        "[[gradient]] of O to the gradients dQ, dK and dV. Their formulas contain [[weight|P]]. To keep P "
        "for the backward pass, N² numbers would be written to [[HBM]] and read back: what the forward pass "
        "has just avoided. **Instead one number per row is kept**, [[lse]] = m + ln l. The backward pass "
        "computes a tile of [[score|S]] again, and gets P without the rest of the row: e^(S − lse) = e^(S − "
        "m) / l, since e^(ln l) = l."
    )
    figure = st.container()
    score, of_row = float(scores[PREDICTED_ROW, 0]), float(lse.ravel()[PREDICTED_ROW])
    answered = type_in(
        "gradients_rebuild",
        f"In row {PREDICTED_ROW} the score with key 0 is **{format_number(score)}**, and lse is "
        f"**{format_number(of_row)}**. What is its weight in P?",
        (weight_of_lse(score, of_row),),
        f"P = e^({format_number(score)} − {format_number(of_row)}). The other scores of the row were not "
        f"needed.",
    )
    hidden = np.full(scores.shape, "empty", dtype=object)
    if answered:
        hidden[PREDICTED_ROW, 0] = "now"
    rebuilt = (
        "exp (",
        Matrix("S", scores, "muted", marked_row=PREDICTED_ROW),
        "−",
        Matrix("lse", lse, "state", marked_row=PREDICTED_ROW),
        ") =",
        Matrix("P", lines["P"], "muted", hidden, note="hatched: not stored"),
    )
    figure.html(matrices_html(rebuilt, palette))
