"""The chapters count by one rule: for the same problem they show the same bytes."""

import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.algorithms.standard.traffic import standard_bytes
from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_run
from kernels.traffic.modelled import compulsory_bytes
from tests.app.pages import open_chapter
from viz.shared import runs
from viz.shared.formats import format_bytes

PROBLEMS = [
    AttentionProblem(q_len=1024, kv_len=1024, head_dim=64, block_m=64, block_n=64),
    AttentionProblem(q_len=2048, kv_len=2048, head_dim=128, block_m=128, block_n=32),
    AttentionProblem(q_len=128, kv_len=128, head_dim=16, block_m=16, block_n=64),
]


@pytest.fixture(autouse=True)
def no_worker(monkeypatch):
    monkeypatch.setattr(runs, "run_store", lambda: None)


def words(app):
    assert not app.exception
    return "\n".join(element.value for element in [*app.markdown, *app.caption])


def traffic(problem):
    """Algorithm -> requested bytes, of the cards; and all words."""
    app = open_chapter(
        "io", io_t=problem.q_len, io_d=problem.head_dim, io_bm=problem.block_m, io_bn=problem.block_n
    )
    cards = [each.value for each in app.markdown if "B** requested, modelled" in each.value]
    requested = {
        card.split("**")[1]: int(card.split("= **")[1].split(" B**")[0].replace(",", "")) for card in cards
    }
    return requested, words(app)


def roofline(problem):
    """The bytes of the steps in the tables "at least" and "requested", as they are written."""
    app = open_chapter(
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
    app = open_chapter(
        "ideas",
        ideas_n=problem.q_len,
        ideas_d=problem.head_dim,
        ideas_block_m=problem.block_m,
        ideas_block_n=problem.block_n,
    )
    card = next(metric for metric in app.metric if metric.label == "Requested, forward")
    return card.value, card.delta.removeprefix("standard "), words(app)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: str(problem.q_len))
def test_traffic_roofline_and_five_ideas_show_the_same_requested_and_least_bytes(problem):
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


def test_the_kernel_chapter_counts_its_run_as_five_ideas_does():
    problem = PRESETS["tiny"].problem
    said = words(open_chapter("kernel"))
    flash, standard, _ = ideas(problem)
    counted = recorded_run(problem, "flash2").trace.total_bytes
    assert flash == format_bytes(counted)
    assert f"ends at {flash} " in said
    assert f"by the same rule: {standard} (modelled)" in said
    assert f"</dfn> {format_bytes(standard_bytes(problem))}." in said


def test_the_rule_is_what_the_kernels_ask_for():
    small = PROBLEMS[2]
    for name in ("standard", "flash2"):
        assert run_traced(small, name).total_bytes == ALGORITHMS[name].requested_bytes(small)


@pytest.mark.parametrize("slug", ["kernel", "io", "roofline", "ideas"])
def test_each_chapter_that_shows_bytes_names_the_rule(slug):
    said = words(open_chapter(slug))
    assert ">requested</dfn>" in said or ">Requested</dfn>" in said
    assert "at least" in said.lower()
