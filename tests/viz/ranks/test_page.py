"""The page of several GPUs through Streamlit's AppTest, and what the player gets of ranks."""

import itertools
import json

import numpy as np
import pytest

from kernels.problem import AttentionProblem
from kernels.problem.ranks import runs_of
from kernels.recordings import recorded_ranks
from kernels.worker.requests import RanksRequest
from tests.app.pages import drawn_with_results, open_page
from viz.player.ranks import held_by, most_shared_rows, ranks_data, title_of
from viz.shared import runs

pytestmark = pytest.mark.usefixtures("own_store")


def played(app):
    """Titles of the runs that the page plays."""
    (component,) = (each for each in app.get("bidi_component") if '"kind": "ranks"' in each.proto.json)
    return [run["title"] for run in json.loads(component.proto.json)["run"]["runs"]]


def test_the_first_view_is_a_recorded_race():
    app = open_page("ranks")
    assert not app.exception
    assert played(app) == ["Ring, zigzag", "Ring, contiguous"]


@pytest.mark.parametrize(
    ("query", "titles"),
    [
        ({"way": "all_gather.zigzag", "against": "all_to_all.zigzag"}, ["All-gather, zigzag", "All-to-all"]),
        ({"way": "ring.striped", "against": "none"}, ["Ring, striped"]),
        ({"way": "backward"}, ["Ring, zigzag, backward"]),
    ],
)
def test_a_link_says_what_is_played(query, titles):
    assert played(open_page("ranks", **query)) == titles


def test_a_run_on_ranks_of_this_machine_is_played():
    problem = AttentionProblem(q_len=16, kv_len=16, q_heads=1, kv_heads=1, head_dim=16, mask="causal")
    request = RanksRequest(problem, 2, (("ring", "zigzag"), ("ring", "contiguous")), "forward")
    job = runs.run_store().job(request)
    assert job.wait(60)
    traces = job.result()
    assert [title_of(trace) for trace in traces] == ["Ring, zigzag", "Ring, contiguous"]
    assert all(report.passes for trace in traces for report in trace.reports.values())
    query = {"source": "Run here", "ranks": 2, "tokens": 16, "heads": 1}
    assert played(drawn_with_results(open_page("ranks", **query))) == ["Ring, zigzag", "Ring, contiguous"]


def test_what_a_rank_holds_is_what_it_computes_with():
    for trace in recorded_ranks().values():
        for rank, i in itertools.product(range(trace.ranks), np.flatnonzero(trace.of("attend"))):
            if trace.span_rank[i] == rank and trace.method == "ring":
                held = [each for each in held_by(trace, rank) if each["from"] <= trace.span_begin_ns[i]][-1]
                assert trace.span_owner[i] in held["owners"]


def test_the_shares_of_a_row_are_of_keys_that_it_sees():
    trace = recorded_ranks()["ring.zigzag.forward"]
    run = ranks_data([trace], recorded=True)["runs"][0]
    for rank, (row, steps) in enumerate(zip(most_shared_rows(trace), run["lse"], strict=True)):
        position = trace.positions[rank, row]
        seen = {
            owner
            for owner in range(trace.ranks)
            if runs_of(owner, trace.ranks, trace.problem.q_len, trace.layout)[0].first <= position
        }
        before = -np.inf
        for step in steps:
            after = float(step["lse"])
            assert after >= before - 1e-6
            assert (after > before) == (step["owner"] in seen)
            before = after
