"""The Explore page through Streamlit's AppTest: what it shows, in every state of the worker."""

import re

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.attention.operators import MAX_PACKED_ROWS
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_measurement
from kernels.worker.failures import Crashed, OutOfMemory
from kernels.worker.requests import MeasureRequest, TraceRequest
from tests.anywhere import ANYWHERE
from tests.app.pages import drawn_with_results, fail_jobs, mounted_player, open_page
from viz.shared import runs
from viz.shared.formats import format_bytes, format_ms

pytestmark = pytest.mark.usefixtures("stop_the_worker")
SMALL = {"q_len": 64, "kv_len": 64, "block_m": 32, "block_n": 32, "head_dim": 16}


def player(app):
    """Player data of the page, or None."""
    mounted = mounted_player(app)
    return mounted["run"] if mounted else None


def open_live(**query):
    """The page on a small problem that is not recorded, once its runs have ended."""
    return drawn_with_results(open_page(**SMALL, **query), TraceRequest)


def recorded_time(peer):
    """Of the first preset, forward."""
    timing = recorded_measurement(PRESETS["gpt2"].problem).result(peer).timing
    return format_ms(timing.median_ms)


def metrics(app):
    return {metric.label: (metric.value, metric.delta) for metric in app.metric}


def test_the_first_view_is_the_recorded_gpt2_head_with_four_figures():
    app = open_page()
    assert not app.exception
    data = player(app)
    assert data["title"] == "FlashAttention-2, 1024 × 1024, head_dim 64, float16, causal, tiles 64 × 64"
    assert data["provenance"].startswith("recorded on NVIDIA H200")
    assert list(metrics(app)) == [
        "Largest error of the result · recorded",
        "Bytes moved · counted",
        "Time of one call · recorded",
        "Extra memory · recorded",
    ]
    assert metrics(app)["Bytes moved · counted"] == ("2.49 MB", "5.1× less: standard 12.8 MB")
    assert metrics(app)["Largest error of the result · recorded"][1].startswith("passes: allowed")
    assert len(app.get("plotly_chart")) == 8


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_shows_its_recording(name):
    preset = PRESETS[name]
    app = open_page(**preset.problem.as_dict(), algorithm=preset.algorithm or "flash2")
    assert not app.exception
    assert player(app)["provenance"].startswith("recorded on")
    assert app.selectbox(key="preset").value == name


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_plays_its_recordings(algorithm):
    for name in ALGORITHMS[algorithm].recorded:
        problem = PRESETS[name].problem
        if runs.recorded(ALGORITHMS[algorithm].with_own_tiles(problem), algorithm):
            app = open_page(**problem.as_dict(), algorithm=algorithm)
            assert not app.exception
            assert player(app)["provenance"].startswith("recorded on")
            assert player(app)["title"].startswith(ALGORITHMS[algorithm].label)


@pytest.mark.parametrize("algorithm", ANYWHERE)
def test_every_algorithm_plays_a_run(algorithm):
    live = open_live(algorithm=algorithm)
    assert not live.exception
    data = player(live)
    assert data["title"].startswith(ALGORITHMS[algorithm].label)
    assert data["provenance"].startswith("run here")
    assert metrics(live)["Largest error of the result · measured"][1].startswith("passes")
    assert [kernel["name"] for kernel in data["kernels"]] == [
        kernel.name for kernel in ALGORITHMS[algorithm].kernels
    ]


def test_the_page_says_who_wrote_the_state_down_and_what_the_least_is_of():
    in_triton, in_torch = (
        [caption.value for caption in open_live(algorithm=name).caption] for name in ("flash2", "row_wise")
    )
    assert any("written by the kernel itself" in words and "interpreter" in words for words in in_triton)
    (state,) = (words for words in in_torch if words.startswith("**Measured**: summed up"))
    assert "Triton" not in state
    assert any("reads Q, K and V once, and writes O and lse once, moves" in words for words in in_triton)
    assert any("reads Q, K and V once, and writes O once, moves" in words for words in in_torch)


def test_the_algorithm_is_in_the_url_and_an_unknown_one_is_the_first():
    app = open_live(algorithm="flash1")
    assert app.selectbox(key="algorithm").value == "flash1"
    app.selectbox(key="algorithm").select("backward").run()
    assert app.query_params["algorithm"] == "backward"
    assert player(app)["title"].startswith("Backward")
    assert player(open_live(algorithm="<script>"))["title"].startswith("FlashAttention-2")


def test_the_decoding_preset_brings_its_algorithm():
    app = open_page()
    app.selectbox(key="preset").select("decode").run()
    assert player(app)["title"].startswith("Split-KV decoding")


def test_a_preset_takes_back_the_algorithm_that_another_preset_brought():
    app = open_page()
    app.selectbox(key="preset").select("decode").run()
    app.selectbox(key="preset").select("gpt2").run()
    assert player(app)["title"] == player(open_page())["title"]
    app.selectbox(key="algorithm").select("flash1").run()
    app.selectbox(key="preset").select("ragged").run()
    assert app.selectbox(key="algorithm").value == "flash1"  # chosen by hand, so it stays


@pytest.mark.parametrize(("q_len", "words"), [(24, "row 0 sees"), (40, "rows 0 to 16 see")])
def test_rows_that_see_no_key_are_said(q_len, words):
    fields = {"kv_len": 23, "block_m": 16, "block_n": 16, "head_dim": 16, "mask": "causal"}
    app = drawn_with_results(open_page(q_len=q_len, **fields), TraceRequest)
    assert f"{words} no key: O is 0 there, and lse is −∞" in player(app)["notes"]
    assert not any("no key" in note for note in player(open_live(mask="causal"))["notes"])


def test_the_bar_that_is_the_time_of_split_kv_decoding_is_named():
    app = open_page(**PRESETS["decode"].problem.as_dict(), algorithm="split_kv")
    assert "flash_attention, which picks its kernel: time of one call · recorded" in metrics(app)
    (words,) = [each.value for each in app.caption if each.value.startswith("**Split-KV decoding**")]
    assert f"at most {MAX_PACKED_ROWS} queries" in words
    assert "Its bar is" in words


def test_two_runs_are_compared_under_one_transport():
    app = open_live(versus="flash1", place="race:250")
    assert not app.exception
    component = mounted_player(app)
    assert component["state"] == {"place": "race:250"}
    titles = [run["title"] for run in component["run"]["runs"]]
    assert titles[0].startswith("FlashAttention-2")
    assert titles[1].startswith("FlashAttention-1")
    assert "Modelled" in component["run"]["clock_words"]
    assert {"A", "B", "B − A"} <= set(app.dataframe[0].value.columns)
    assert re.fullmatch(r"[\d.]+× less: B .+B", metrics(app)["A: Bytes moved · counted"][1])


@pytest.mark.parametrize("algorithm", ["flash1", "row_wise"])
def test_an_algorithm_that_is_not_timed_has_no_time_of_another_one(algorithm):
    app = open_page(algorithm=algorithm)
    value, beside = metrics(app)["Time of one call"]
    assert value == "not timed"
    assert beside.replace("\N{NO-BREAK SPACE}", " ").startswith(
        f"FlashAttention-2, recorded: {recorded_time('flash2')} ±"
    )
    assert metrics(app)["Extra memory"] == ("not measured", "FlashAttention-2, recorded: 135 kB")
    label = ALGORITHMS[algorithm].label
    (words,) = [each.value for each in app.caption if each.value.startswith(f"**{label}**: No time is taken")]
    assert words.endswith("“our kernel, these tiles” is FlashAttention-2.")


def test_the_cards_of_standard_attention_are_those_of_torchs_own_operations():
    cards = metrics(open_page(algorithm="standard"))
    time, beside = cards["In torch's own operations: time of one call · recorded"]
    assert time.replace("\N{NO-BREAK SPACE}", " ").startswith(recorded_time("naive"))
    assert re.fullmatch(r"[\d.]+× slower: FlashAttention-2 " + recorded_time("flash2"), beside)
    assert cards["In torch's own operations: extra memory · recorded"] == (
        "5.37 MB",
        "40× more: FlashAttention-2 135 kB",
    )


@pytest.mark.parametrize(
    ("algorithm", "says", "runs"),
    [
        ("flash2", "without ever storing the matrix", "a real GPU"),
        ("standard", "Standard attention writes the", "torch does it"),
        ("row_wise", "keeps whole rows of", "torch does it"),
        ("backward", "without ever storing the matrix", "compute its gradients"),
    ],
)
def test_the_sentence_above_the_player_is_true_of_the_algorithm(algorithm, says, runs):
    (words,) = [each.value for each in open_page(algorithm=algorithm).markdown if "Below, " in each.value]
    assert says in words
    assert runs in words
    assert ("without ever" in words) == (ALGORITHMS[algorithm].headline == "")


def test_beside_a_second_run_no_card_of_a_has_the_time_of_another_algorithm():
    cards = metrics(open_page(algorithm="flash1", versus="flash2"))
    assert "A: Bytes moved · counted" in cards
    assert cards["A: Time of one call"][0] == "not timed"
    assert "A: Time of one call · recorded" in metrics(open_page(versus="flash1"))


def test_two_recordings_are_compared_too():
    app = open_page(versus="flash1")
    assert not app.exception
    shown = mounted_player(app)["run"]["runs"]
    assert all(run["provenance"].startswith("recorded on") for run in shown)


def test_a_second_run_may_have_other_blocks_and_another_mask():
    app = open_live(versus="flash2", versus_block_m="16", versus_mask="causal")
    runs_shown = mounted_player(app)["run"]["runs"]
    assert [run["problem"]["block_m"] for run in runs_shown] == [32, 16]
    assert [run["problem"]["mask"] for run in runs_shown] == ["causal", "causal"]


def test_a_window_without_a_window_mask_is_the_same_problem():
    app = open_page(window_left=7)
    assert player(app)["provenance"].startswith("recorded on")
    windowed = open_live(mask="window", window_left=7)
    assert player(windowed)["problem"]["left"] == 7


def test_choosing_a_preset_sets_every_field():
    app = open_page()
    app.selectbox(key="preset").select("ragged").run()
    for field, value in PRESETS["ragged"].problem.as_dict().items():
        assert app.session_state[field] == value
    assert player(app)["problem"]["kv_len"] == 328


def test_another_problem_is_run_here_and_measured():
    app = open_live()
    assert not app.exception
    data = player(app)
    assert data["provenance"].startswith("run here")
    assert data["steps"]["count"] == 3
    for _ in range(40):
        if len(metrics(app)) == 4 and "not measured" not in str(metrics(app)):
            break
        store = runs.run_store()
        request = MeasureRequest(runs.measured_problem(_problem(), runs.backend(store)))
        if job := store.peek(request):
            job.wait(20)
        app.run()
    labels = list(metrics(app))
    assert labels[:2] == ["Largest error of the result · measured", "Bytes moved · counted"]
    of_torch = "Torch's fused attention, as a CPU times no kernel: time of one call · measured"
    assert labels[2] in (of_torch, "Time of one call · measured")
    assert metrics(app)[labels[2]][0] != "–"


def _problem():
    return PRESETS["gpt2"].problem.with_(**SMALL)


def test_a_recorded_problem_can_be_run_here_instead():
    app = open_page(**PRESETS["tiny"].problem.as_dict())
    assert player(app)["provenance"].startswith("recorded on")
    next(button for button in app.button if button.label == "Run it here").click().run()
    drawn_with_results(app, TraceRequest)
    assert player(app)["provenance"].startswith("run here")
    assert metrics(app)["Largest error of the result · measured"][1].startswith("passes")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"q_heads": 6, "kv_heads": 4}, "kv_heads=4 is not accepted: it must divide q_heads=6"),
        ({"q_heads": 3, "kv_heads": 2}, "Every key and value head serves the same number of query heads"),
    ],
)
def test_a_problem_that_no_kernel_takes_is_explained(query, message):
    app = open_page(**query)
    assert not app.exception
    assert message in app.error[0].value
    assert player(app) is None
    assert app.number_input(key="q_heads").value == query["q_heads"]  # nothing the user entered is lost


def test_without_triton_recordings_are_shown_and_the_page_says_why(monkeypatch):
    monkeypatch.setattr(
        runs, "triton_missing", lambda: "Triton has no wheel for Darwin; recorded runs are shown"
    )
    monkeypatch.setattr(
        "viz.shared.layout.triton_missing", lambda: "Triton has no wheel for Darwin; recorded runs are shown"
    )
    monkeypatch.setattr(runs, "run_store", lambda: None)
    app = open_page()
    assert not app.exception
    assert player(app)["provenance"].startswith("recorded on")
    assert any("replay" in markdown.value for markdown in app.markdown)
    other = open_page(**SMALL)
    assert not other.exception
    assert "cannot run here (the badge “replay” says why), so only recorded problems" in other.info[0].value


@pytest.mark.parametrize(
    ("failure", "seed"),
    [(OutOfMemory(68_000_000_000, 24_000_000_000), 11), (Crashed(-11), 12)],
    ids=["memory", "crash"],
)
def test_a_failure_of_the_worker_is_a_message_with_a_way_on(failure, seed, monkeypatch):
    fail_jobs(monkeypatch, TraceRequest, failure)
    app = open_page(**SMALL, seed=seed)
    assert not app.exception
    assert str(failure) in app.error[0].value
    assert player(app) is None
    app.run()
    assert str(failure) in app.error[0].value  # a redraw does not ask again
    monkeypatch.undo()
    next(button for button in app.button if button.label == "Try again").click().run()
    drawn_with_results(app, TraceRequest)
    assert player(app)["provenance"].startswith("run here")


def test_long_work_is_announced_and_not_started_and_a_recording_stands_in():
    runs.run_store().client.wait_ready(60)  # no estimate before
    app = open_page(q_len=8192, kv_len=8192, block_m=16, block_n=16, algorithm="flash1")
    assert "This run takes about" in app.info[0].value
    assert "Run" in [button.label for button in app.button]
    assert "the recording of the nearest problem stands in" in app.info[1].value
    assert player(app)["provenance"].startswith("recorded on")


def test_a_long_run_is_shown_by_a_sample():
    problem = PRESETS["gpt2"].problem.with_(q_len=8192, kv_len=8192, head_dim=16, block_m=128, block_n=128)
    runs.run_store().client.wait_ready(60)  # long work is not asked for before
    app = drawn_with_results(open_page(**problem.as_dict(), step=3), TraceRequest)
    assert not app.exception
    data = player(app)
    assert data["notes"][0].startswith("sample: ")
    assert data["notes"][0].endswith("of 64 query tiles")
    assert data["problem"]["tile_numbers"][-1] == 63
    assert metrics(app)["Largest error of the result · measured"][1].startswith("passes")
    whole = format_bytes(ALGORITHMS["flash2"].requested_bytes(problem))
    assert metrics(app)["Bytes moved · modelled"][0] == whole
    assert mounted_player(app)["state"]["step"] == "3"


def test_the_step_in_the_url_reaches_the_player():
    app = open_page(step="12.3", unit="phase", row="0.17")
    state = mounted_player(app)["state"]
    assert state == {"step": "12.3", "unit": "phase", "row": "0.17"}
