"""The Traffic chapter without a worker: modelled bytes, and what it says if something does not fit."""

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.problem import AttentionProblem
from kernels.recordings import recorded_launches
from tests.app.pages import open_chapter, open_whole_chapter, words
from viz.shared.formats import format_kib

pytestmark = pytest.mark.usefixtures("no_worker")


@pytest.mark.parametrize(
    ("length", "gpu", "fitting"), [(512, "H200", 64), (2048, "A100", 16), (16384, "H200", 0)]
)
def test_row_wise_attention_keeps_the_rows_that_fit(length, gpu, fitting):
    app = open_whole_chapter("io", io_t=length, io_d=64, io_gpu=gpu)
    table = next(each.value for each in app.markdown if "| requested, modelled |" in each.value)
    rows = {line.split("**")[1].split(",")[0]: line for line in table.splitlines()[2:]}
    assert len(rows) == (4 if fitting else 3)
    if fitting:
        problem, entry = (
            AttentionProblem(q_len=length, kv_len=length, block_m=fitting),
            ALGORITHMS["row_wise"],
        )
        assert f"| **{entry.requested_bytes(problem):,} B** | not yet |" in rows["row-wise"]
        assert f":green[{format_kib(entry.chip_bytes(problem))}]" in rows["row-wise"]
        assert f"{length // fitting} times" in words(app)


def test_growth_shows_both_rules_for_tiles_and_what_compiled_kernels_take():
    app = open_whole_chapter("io", io_view="Growth", io_d=64, io_m=64)
    text = words(app)
    for said in ("=128$", "=64$", "**1.50 times"):
        assert said in text
    launches = (each for each in recorded_launches() if each.kernel == "_attn_fwd")
    launch = next(each for each in launches if each.problem.head_dim == 64)
    tiles = f"{launch.problem.block_m} × {launch.problem.block_n}"
    stages, shared = launch.info.num_stages, format_kib(launch.info.shared_bytes)
    assert f"| `_attn_fwd` | {tiles}, {launch.problem.dtype} | {stages} | {shared} |" in text
    held = [line for line in text.splitlines() if line.startswith(("| forward, ", "| backward, "))]
    assert [":red[" in line for line in held] == [False, True, False]


def test_growth_has_no_tiles_to_choose_and_forward_keeps_those_that_were_chosen():
    app = open_chapter("io", io_bm=128, io_m=256, io_d=16)
    app.segmented_control(key="io_view").select("Growth").run()
    assert {each.key for each in app.select_slider} == {"io_t", "io_d", "io_m"}
    assert "No point" in words(app)
    app.segmented_control(key="io_view").select("Forward").run()
    assert app.select_slider(key="io_bm").value == 128
