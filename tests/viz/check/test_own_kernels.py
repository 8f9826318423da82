"""Kernels of the user on the Check page: no verdict before theirs, crashes, the battery, several kernels."""

from types import SimpleNamespace

import pytest

from kernels.check import battery
from kernels.check.cases import CheckCase
from kernels.problem import AttentionProblem
from tests import BUGGY_KERNEL as BUGGY
from tests.viz.check.pages import SMALL, has_verdict, open_page, page, settled, words
from tests.viz.check.test_page import file_of, tensors, upload
from viz.shared import runs

VERDICTS = ("PASSES", "FAILS", "NOT CHECKED", "NO VERDICT")
RIGHT = "torch.softmax((q @ k.mT).float() * q.shape[-1] ** -0.5, -1).to(v.dtype) @ v"


@pytest.fixture
def few_cases(monkeypatch):
    small = AttentionProblem(head_dim=16, block_m=16, block_n=16)
    cases = tuple(CheckCase(small.with_(q_len=n, kv_len=n)) for n in (48, 40))
    monkeypatch.setattr(battery, "BATTERY", cases)


def test_while_the_worker_starts_no_verdict_is_on_the_page(monkeypatch, named):
    named(f"{BUGGY}:attention")
    starting = SimpleNamespace(client=SimpleNamespace(device=None, start_failure=None))
    with monkeypatch.context() as patched:
        patched.setattr(runs, "run_store", lambda: starting)
        app = page().run()
    assert not app.exception
    assert "The worker process is starting" in words(app)
    assert not any(verdict in words(app) for verdict in VERDICTS)


def test_while_another_case_is_checked_the_old_verdict_is_gone(named, tmp_path):
    sleeps = "    if q.shape[2] == 40: time.sleep(4)\n"
    (tmp_path / "mine.py").write_text(
        f"import time\nimport torch\ndef attention(q, k, v):\n{sleeps}    return {RIGHT}\n"
    )
    named(f"{tmp_path / 'mine.py'}:attention")
    app = settled(open_page(**SMALL, gradients="false"), has_verdict)
    assert "PASSES" in words(app)
    app.number_input(key="q_len").set_value(40).run()
    assert "Checking" in words(app)
    assert not any(verdict in words(app) for verdict in VERDICTS)


def test_a_crash_is_a_verdict_with_the_words_of_the_shell_and_the_next_check_works(named, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("import ctypes\ndef attention(q, k, v):\n    ctypes.string_at(0)\n")
    named(f"{mine}:attention")
    app = settled(open_page(**SMALL), has_verdict)
    assert "FAILS" in words(app)
    assert "it crashed the process with SIGSEGV" in words(app)
    mine.write_text(f"import torch\ndef attention(q, k, v):\n    return {RIGHT}\n")
    app = settled(app.run(), lambda app: "PASSES" in words(app))
    assert not app.exception


def test_an_error_shows_the_authors_lines_and_the_cause_of_a_wrong_result_is_named(named, tmp_path):
    lines = "def attention(q, k, v):\n    return helper(q)\ndef helper(q):\n    return q.x\n"
    (tmp_path / "mine.py").write_text(lines)
    named(f"{tmp_path / 'mine.py'}:attention")
    app = settled(open_page(**SMALL), has_verdict)
    trace = next(code.value for code in app.code if "Traceback" in code.value)
    assert "in attention" in trace
    assert "in helper" in trace
    assert "site-packages" not in trace
    named(f"{BUGGY}:attention")
    app = settled(open_page(**SMALL | {"kv_len": 128}), has_verdict)
    assert "the accumulator is not rescaled when the row max grows" in words(app)


def test_the_battery_of_several_kernels_is_one_table_side_by_side(named, few_cases):
    named(f"{BUGGY}:attention", f"{BUGGY}:attention_fixed")
    app = open_page(view="battery")
    names = ["buggy_kernel.py:attention", "buggy_kernel.py:attention_fixed"]
    assert app.selectbox(key="kernel").options[:2] == names
    next(button for button in app.button if button.label == "Run 4 cases").click().run()
    app = settled(app, lambda app: "Select a row to open its case" in words(app))
    assert not app.exception
    tables = {tuple(frame.value.columns): frame.value for frame in app.dataframe}
    beside = next(table for columns, table in tables.items() if columns[0] == "case")
    assert list(beside.columns)[1:] == names
    assert all(text.startswith("fail") for text in beside["buggy_kernel.py:attention"])
    assert all(text.startswith("pass") for text in beside["buggy_kernel.py:attention_fixed"])
    assert "2 of 2 cases fail" in words(app).replace("\\", "")


def test_every_page_says_that_a_kernel_was_named_and_links_to_its_check(named, links):
    named(f"{BUGGY}:attention")
    open_page(**SMALL)
    assert links[0] == {"kernel": "buggy_kernel.py:attention"}


def test_a_file_in_the_other_order_of_axes_is_recognised_and_the_choice_is_offered():
    swapped = {name: array.swapaxes(1, 2) for name, array in tensors().items()}
    app = settled(upload(open_page(**SMALL), file_of(**swapped)), has_verdict)
    assert any("Read as (batch, heads, length, head_dim)" in info.value for info in app.info)
    assert "FAILS" in words(app)
    (axes,) = (each for each in app.segmented_control if each.label.startswith("Axes"))
    axes.set_value("blhd")
    app = settled(app.run(), lambda app: "PASSES" in words(app))
    assert not app.exception
    app.file_uploader[0].upload("next.npz", file_of(**tensors()), "application/octet-stream")
    app = settled(app.run(), lambda app: "next" in words(app) and "PASSES" in words(app))
    assert "Read as" not in "".join(info.value for info in app.info)  # the choice was for the other file
