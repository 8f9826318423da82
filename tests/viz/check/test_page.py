"""The Check page: one case and its verdict, kernels from the command line, many cases."""

import re
import sys
import time
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from kernels.check.case import battery
from kernels.check.case.cases import CheckCase
from kernels.check.result import CheckResult
from kernels.device.runtime import DEVICE
from kernels.problem import AttentionProblem
from tests import ROOT
from viz.check import battery as check_battery
from viz.check.battery import AT_ONCE, BatteryRun, CheckContext
from viz.shared import runs

RIGHT = "import torch\ndef attention(q, k, v, attn_mask=None, is_causal=False):\n"
RETURNS = "    return torch.softmax((q @ k.mT).float() * q.shape[-1] ** -0.5, -1).to(v.dtype) @ v\n"
FORWARD = {"gradients": "false", "repeats": 2}
on_the_interpreter = pytest.mark.skipif(DEVICE != "cpu", reason="there is a GPU")
SMALL = {"q_len": 40, "kv_len": 48, "block_m": 16, "block_n": 32, "head_dim": 16, "mask": "full", "seed": 1}
TILE = re.compile(r"Head (\d+),\D+(\d+),\D+(\d+):")
VERDICTS = ("PASSES", "FAILS", "NOT CHECKED", "NO VERDICT")


def page(timeout=60):
    """The Check page by itself, as navigation runs it; the URL is set on it before `run`."""
    return AppTest.from_file(ROOT / "viz" / "check" / "page.py", default_timeout=timeout)


def open_page(**query):
    store = runs.run_store()
    assert store.client.wait_ready(60)
    app = page()
    for name, value in query.items():
        app.query_params[name] = str(value)
    return app.run()


def settled(app, until, limit_s=60):
    """Run again until the page shows what it waits for: fragments do not run by themselves here."""
    deadline = time.monotonic() + limit_s
    while not until(app) and time.monotonic() < deadline:
        time.sleep(0.5)
        app.run()
    assert until(app), [element.value for element in (*app.markdown, *app.error, *app.info)]
    assert not app.exception
    return app


def words(app):
    shown = (*app.markdown, *app.caption, *app.error, *app.info)
    return "\n".join(element.value for element in shown).replace("\\", "")  # as Markdown shows them


def metrics(app):
    return {metric.label: (metric.value, metric.delta) for metric in app.metric}


def has_verdict(app):
    return any(verdict in element.value for element in app.markdown for verdict in VERDICTS)


def checked(app=None, **query):
    """The page with its verdict: a new one with this URL, or one that is open."""
    return settled(app or open_page(**SMALL | {"view": "case"} | query), has_verdict)


def run_all(app):
    """The page once all cases of its grid or battery have run."""
    button = next(button for button in app.button if button.label.startswith("Run "))
    if not button.disabled:
        button.click().run()
    return settled(app, lambda app: "open its case" in words(app))


# --- one case ---


def test_a_kernel_of_ours_passes_with_the_numbers_behind_it_and_its_shape_links_into_explore(links):
    app = checked(kernel="flash2")
    assert "PASSES" in words(app)
    assert list(metrics(app)) == ["O error", "lse error", "dQ error", "dK error", "dV error", "3 runs"]
    assert metrics(app)["3 runs"] == ("equal", "bit by bit")
    assert all(delta.startswith("≤") for label, (_, delta) in metrics(app).items() if label.endswith("error"))
    assert len(app.get("plotly_chart")) == 2
    assert "play-it" not in {button.key for button in app.button}
    assert "--kernel flash2 --shapes 40x48" in app.code[0].value
    assert len(app.get("download_button")) == 1
    assert TILE.search(words(app))
    assert links[-1] == links[-1] | {name: str(value) for name, value in SMALL.items()}


def test_what_is_not_taken_is_not_checked_and_nothing_is_lost():
    assert "forward only" in words(checked(kv_len=63, kernel="flash1", gradients="true"))
    for query, refused in (({"q_heads": 3, "kv_heads": 2}, "kv_heads=2"), ({"scale": 0}, "scale=0.0")):
        app = open_page(**SMALL | {"view": "case"} | query)
        assert f"{refused} is not accepted" in app.error[0].value
        assert app.number_input(key=next(iter(query))).value == next(iter(query.values()))
        assert not has_verdict(app)
        assert not app.exception


CLIENT = {"device": None, "start_failure": None}


@pytest.mark.parametrize(
    ("store", "said"),
    [
        (None, "Triton is missing"),
        (CLIENT | {"start_failure": "[Errno 12]"}, "The worker process does not start: [Errno 12]."),
        (CLIENT, "The worker process is starting"),
    ],
)
def test_without_a_worker_it_is_said_why_nothing_is_checked(store, said, monkeypatch):
    given = store and SimpleNamespace(client=SimpleNamespace(**store))
    monkeypatch.setattr(runs, "run_store", lambda: given)
    app = page().run()
    assert not app.exception
    assert said in words(app)
    assert not has_verdict(app)


IN_URL = [*SMALL, "view", "kernel", "gradients", "repeats", "map", "preset", "scale"]


@pytest.mark.parametrize("value", ["", "nan", "1e9", "-3", "[1]", "%00", "user", "flash2", "10000000", "²"])
def test_a_url_may_hold_anything(value, monkeypatch):
    """Its widgets are the point, not what they start."""
    monkeypatch.setattr(runs, "run_store", lambda: None)
    app = page()
    for name in IN_URL:
        app.query_params[name] = value
    app.run()
    assert not app.exception, app.exception[0].value


# --- the user's kernels: "user" is wrong, "user2" is `mine`, "user3" right, "user4" leaves its memory ---
# In this order: another function than the last one gets a process of its own, which takes 5 s to start.


@on_the_interpreter
def test_a_right_kernel_is_played_beside_ours():
    app = checked(**FORWARD, kernel="buggy_kernel.py:attention_fixed")
    assert "PASSES" in words(app)
    assert "Its tiles" not in words(app)
    app.button(key="play-it").click().run()
    settled(app, lambda app: "Its tiles are 32 × 32" in words(app))


@on_the_interpreter
def test_a_wrong_kernel_fails_with_its_cause_and_a_fault_with_its_line():
    app = checked(**FORWARD, kernel="cases.py:reads_past_keys", kv_len=70)
    assert "read at cases.py:" in words(app)
    assert any("# reads past" in code.value for code in app.code)
    app = checked(**FORWARD, kernel="buggy_kernel.py:attention", kv_len=70)
    assert "FAILS" in words(app)
    assert "not rescaled" in words(app)


def test_the_battery_of_several_kernels_is_one_table_side_by_side_and_fitted_to_what_they_take(
    mine, monkeypatch
):
    mine.write_text(f"{RIGHT}    assert q.shape[2] % 32 == 0 and k.shape[2] % 32 == 0\n{RETURNS}")
    small = AttentionProblem(head_dim=16, block_m=16, block_n=16)
    cases = {CheckCase(small.with_(q_len=n, kv_len=n)): "" for n in (64, 40)}
    monkeypatch.setattr(battery, "BATTERY", cases)
    monkeypatch.setattr(sys, "argv", sys.argv[:3])
    app = run_all(open_page(view="battery", kernel="buggy_kernel.py:attention", **FORWARD))
    names = app.selectbox(key="kernel").options[:2]
    beside = next(frame.value for frame in app.dataframe if frame.value.columns[0] == "case")
    assert set(beside.columns[1:]) == {*names}
    for name, verdict in zip(names, ("fail", "pass"), strict=True):
        assert all(text.startswith(verdict) for text in beside[name] if text)
    table = next(frame.value for frame in app.dataframe if "verdict" in frame.value.columns)
    assert list(table["verdict"]) == sorted(table["verdict"])
    own = table[table["kernel"] == "mine.py:attention"]
    assert len(own) == 2
    assert all(length % 32 == 0 for length in own["query"])
    rows = SimpleNamespace(selection=SimpleNamespace(rows=[1]))
    state = {"battery-table": rows}
    monkeypatch.setattr(check_battery.st, "session_state", state)
    check_battery._open([CheckResult(case, "", None, "", 0.0) for case in cases])
    assert (state["view"], state["q_len"], state["kernel"]) == ("case", 40, "flash_attention")


def test_after_the_file_was_saved_it_is_checked_anew_and_an_error_shows_the_authors_lines(mine):
    mine.write_text("def attention(q, k, v):\n    return helper(q)\ndef helper(q):\n    return q.x\n")
    app = checked(kernel="mine.py:attention")
    (trace,) = (code.value for code in app.code if "Traceback" in code.value)
    assert re.findall(r"in (\w+)\n", trace) == ["attention", "helper"]
    mine.write_text(RIGHT + RETURNS)
    settled(app.run(), lambda app: "PASSES" in words(app))
    assert "no Triton kernel" in words(app)  # which has no tiles to play


def test_while_another_case_is_checked_the_old_verdict_is_gone(mine, tmp_path):
    waits = f"    while q.shape[2] == 41 and not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.1)\n"
    mine.write_text(f"import os, time\n{RIGHT}{waits}{RETURNS}")
    app = checked(kernel="mine.py:attention", gradients="false")
    app.number_input(key="q_len").set_value(41).run()
    assert "Checking" in words(app)
    assert not has_verdict(app)
    (tmp_path / "go").touch()
    assert "PASSES" in words(checked(app))


def test_the_way_to_check_a_kernel_of_ones_own_is_on_the_page_until_one_is_named(monkeypatch):
    assert not [each for each in open_page(**SMALL).code if "my_file.py" in each.value]
    monkeypatch.setattr(sys, "argv", ["app.py"])
    app = open_page(**SMALL, kernel="user")
    app.session_state["own"] = True
    (shown,) = [each.value.split()[-1] for each in app.run().code if "examples/" in each.value]
    assert (ROOT / shown.split(":")[0]).is_file()
    assert "user" not in app.selectbox(key="kernel").options  # no URL names a kernel
    monkeypatch.setattr(sys, "argv", ["app.py", "--kernel", "nothing.py:attention"])
    app = open_page(**SMALL)
    assert not app.exception
    assert "no file nothing.py" in app.error[0].value


# --- many cases ---


def battery_of(*seeds):
    store = runs.run_store()
    assert store.client.wait_ready(60)
    context = CheckContext(store, "interpreter", ())
    cases = tuple(CheckCase(AttentionProblem(**SMALL | {"seed": seed}), "flash1") for seed in seeds)
    run = BatteryRun(context.checks(*cases))
    run.advance(context)
    return context, run


def test_a_stopped_battery_keeps_what_it_has_and_one_that_was_left_is_checked_anew(monkeypatch):
    context, run = battery_of(*range(20, 26))
    assert len(run.jobs) == AT_ONCE
    assert run.jobs[0].wait(60)
    run.advance(context)
    waiting = [job for job in run.jobs if not job.done]
    monkeypatch.setattr(check_battery.st, "session_state", {check_battery.STATE: run})
    other = CheckCase(AttentionProblem(), "flash1")
    check_battery.battery_panel(context, other)  # other cases are chosen: the run is cut short
    assert not any(context.store.peek(job.request) is job for job in waiting)  # the next gets a verdict
    assert all(job.wait(30) for job in run.jobs)
    assert not run.running
    verdicts = [result.verdict for result in run.results(context)]
    assert len(verdicts) == len(run.jobs)
    assert {"pass"} <= set(verdicts) <= {"pass", "error"}
    context, again = battery_of(*range(20, 22))
    assert all(job.wait(60) for job in again.jobs)
    assert [result.verdict for result in again.results(context)] == ["pass"] * 2
