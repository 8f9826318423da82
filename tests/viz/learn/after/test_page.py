"""The chapter What came after, without a worker: programs, a merge, the ring."""

import re

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.algorithms.dispatch import MAX_PACKED_ROWS
from kernels.problem.ranks import runs_of
from tests.app.pages import open_whole_chapter, words
from tests.viz.learn.shown import links

pytestmark = pytest.mark.usefixtures("no_worker")


def open_topic(topic="Split the keys", **query):
    return open_whole_chapter("after", after_topic=topic, **query)


def give_up(app):
    """The page once the answer of its question is shown."""
    next(button for button in app.button if button.label == "Show").click().run()
    assert not app.exception
    return app


def specs(app):
    return [chart.proto.spec for chart in app.get("plotly_chart")]


def badges(app, color):
    return re.findall(rf":{color}-badge\[([^\]]+)\]", words(app))


def test_splitting_fills_the_gpu_and_merging_is_exact():
    app = give_up(open_topic(after_keys=640, after_splits=5, after_row_inputs="growing_max"))
    for programs in ("32 heads | 32", "1 query tile | 32", "× 5 parts | 40"):
        assert programs in words(app)
    for busy in (32, 5 * 8):
        assert any(f"{busy} of 132" in spec for spec in specs(app))
    assert float(badges(app, "green")[0]) < 1e-14
    assert len(badges(app, "red")) == 1  # the plain mean
    row, heads, _ = links(app)
    shared = {"algorithm": "split_kv", "kv_len": "640", "kv_splits": "5", "inputs": "growing_max"}
    assert (shared | {"q_heads": "1"}).items() <= row.items()
    assert (shared | {"q_heads": "32", "kv_heads": "8"}).items() <= heads.items()


def test_the_topic_of_flash_attention_3_says_when_its_kernel_runs():
    app = open_topic("FlashAttention-3")
    head_dims = ALGORITHMS["flash3"].needs.head_dims
    for said in ("SDPA</dfn>", f"{head_dims[0]} to {head_dims[-1]}", f"at most {MAX_PACKED_ROWS} queries"):
        assert said in words(app)


def test_the_ring_is_predicted_and_then_told_by_what_four_gpus_did():
    app = give_up(give_up(open_topic("Several GPUs")))
    held, work = (info.value for info in app.info)
    assert held.startswith("chunk 0. In steps 1 to 4 it holds the chunks 2, 1, 0, 3,")
    assert work.startswith("rank 3.")
    runs = [runs_of(rank, 4, 4096, "contiguous")[0] for rank in range(4)]
    pairs = [sum(position + 1 for position in run.positions) for run in runs]
    assert all(f"{each / sum(pairs):.0%}" in work for each in pairs)
    assert [link.proto.page for link in app.get("page_link")][-1] == "ranks"
