"""The chapters count by one rule: for the same problem they show the same bytes."""

import pytest

from kernels.algorithms.standard.traffic import standard_bytes
from kernels.problem import AttentionProblem
from kernels.traffic.modelled import compulsory_bytes
from tests.app.pages import open_whole_chapter, words
from viz.shared.formats import format_bytes

PROBLEM = AttentionProblem(q_len=2048, kv_len=2048, head_dim=128, block_m=128, block_n=32)
pytestmark = pytest.mark.usefixtures("no_worker")


def traffic(problem):
    """Algorithm -> requested bytes, of the table of formulas; and all words."""
    app = open_whole_chapter(
        "io", io_t=problem.q_len, io_d=problem.head_dim, io_bm=problem.block_m, io_bn=problem.block_n
    )
    table = next(each.value for each in app.markdown if "| requested, modelled |" in each.value)
    rows = [line.split("**") for line in table.splitlines()[2:]]
    requested = {row[1]: int(row[3].removesuffix(" B").replace(",", "")) for row in rows}
    return requested, words(app)


def roofline(problem):
    """The bytes of the steps in the tables "at least" and "requested", as they are written."""
    app = open_whole_chapter(
        "roofline",
        roofline_view="Tables",
        roofline_q=problem.q_len,
        roofline_k=problem.kv_len,
        roofline_d=problem.head_dim,
        roofline_bm=problem.block_m,
    )
    tables = [each.value for each in app.markdown if "| elements moved | bytes |" in each.value]
    assert len(tables) == 2
    return [
        {row.split("**")[1]: row.split("|")[3].strip() for row in table.splitlines()[2:]} for table in tables
    ], words(app)


def ideas(problem):
    """(requested, standard requested) of the first card; and all words."""
    app = open_whole_chapter(
        "ideas",
        ideas_n=problem.q_len,
        ideas_d=problem.head_dim,
        ideas_block_m=problem.block_m,
        ideas_block_n=problem.block_n,
    )
    card = next(metric for metric in app.metric if metric.label == "Requested, forward")
    return card.value, card.delta.rpartition("standard ")[2], words(app)


def test_traffic_roofline_and_five_ideas_show_the_same_requested_and_least_bytes():
    problem = PROBLEM
    cards, of_traffic = traffic(problem)
    (least, requested), _ = roofline(problem)
    flash, standard, of_ideas = ideas(problem)
    assert flash == requested["fused"] == format_bytes(cards["FlashAttention-2"])
    assert standard == format_bytes(cards["standard"])
    steps = ("S = QKᵀ", "softmax", "O = PV")
    for table, total in ((requested, cards["standard"]), (least, standard_bytes(problem))):
        assert sum(map(in_bytes, (table[step] for step in steps))) == pytest.approx(total, rel=0.01)
    with_lse = format_bytes(compulsory_bytes(problem))
    assert least["fused"] == with_lse
    assert f"{with_lse} with lse" in of_traffic
    assert f"can move less than {with_lse}" in of_ideas
    assert f"at least {standard_bytes(problem):,} B" in of_traffic
    assert f"{standard} requested, at least {format_bytes(standard_bytes(problem))}" in of_ideas


def in_bytes(text):
    number, unit = text.split()
    return float(number) * {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}[unit]
