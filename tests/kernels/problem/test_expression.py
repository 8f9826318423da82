"""Masks as expressions: what they mean, what their bounds hold, and what is refused at which column."""

import random

import numpy as np
import pytest

from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.expression import bounds, evaluate, parse

NAMES = ("q", "k", "h", "b", "doc(q)", "doc(k)")


def random_number(draw, depth):
    if depth == 0 or draw.random() < 0.4:
        return draw.choice([*NAMES, str(draw.randrange(9))])
    left, right = random_number(draw, depth - 1), random_number(draw, depth - 1)
    return draw.choice(
        [f"({left} + {right})", f"({left} - {right})", f"(3 * {left})", f"abs({left})"]
        + [f"({left} {op} {draw.randrange(1, 6)})" for op in ("//", "%")]
    )


def random_condition(draw, depth=3):
    if depth == 0 or draw.random() < 0.4:
        op = draw.choice(["<", "<=", ">", ">=", "==", "!="])
        return f"({random_number(draw, 2)} {op} {random_number(draw, 1)})"
    left, right = random_condition(draw, depth - 1), random_condition(draw, depth - 1)
    return draw.choice([f"({left} and {right})", f"({left} or {right})", f"(not {left})"])


@pytest.mark.parametrize("seed", range(60))
def test_an_expression_means_what_python_says_and_lies_within_its_bounds(seed):
    draw = random.Random(seed)
    text = random_condition(draw)
    node = parse(text)
    lows = {name: draw.randrange(-5, 20) for name in NAMES}
    highs = {name: low + draw.randrange(6) for name, low in lows.items()}
    low, high = bounds(node, {name: (lows[name], highs[name]) for name in NAMES})
    for _ in range(20):
        values = {name: draw.randint(lows[name], highs[name]) for name in NAMES}
        plain = {name.replace("(", "_").replace(")", ""): value for name, value in values.items()}
        words = text.replace("doc(q)", "doc_q").replace("doc(k)", "doc_k")
        expected = bool(eval(words, {"abs": abs}, plain))
        assert bool(evaluate(node, values)) == expected, text
        assert low <= expected <= high, text


def test_a_comparison_may_be_a_chain_and_a_number_negative():
    node = parse("-3 <= q - k < 4")
    q = np.arange(10)[:, None]
    k = np.arange(10)[None, :]
    assert (evaluate(node, {"q": q, "k": k}) == ((q - k >= -3) & (q - k < 4))).all()


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("k <= q and open('x')", 12),
        ("k << 2", 1),
        ("k <= q and", 11),
        ("q + k", 1),
        ("(k <= q) + 1 < 3", 2),
        ("k <= q and doc(h) == 0", 12),
        ("k // 0 < q", 6),
        ("k // q < 2", 6),
        ("q * k < 5", 1),
        ("k <= q.real", 6),
        ("[k for k in (q,)]", 1),
        ("k <= 1.5", 6),
        ("k is q", 1),
        ("", 1),
    ],
)
def test_what_is_not_allowed_is_refused_at_its_column(text, column):
    with pytest.raises(InvalidProblem, match=f"column {column}") as refusal:
        AttentionProblem(mask="expression", expression=text)
    assert refusal.value.field == "expression"


@pytest.mark.parametrize("text", ["(" * 150 + "k" + ")" * 40, "k <= q" + " and k <= q" * 30, "k" * 201])
def test_long_or_deep_expressions_are_refused_and_nothing_breaks(text):
    with pytest.raises(InvalidProblem):
        parse(text)
