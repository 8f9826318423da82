"""One case on the Check page: verdicts, files, a kernel from the command line."""

import io
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from kernels.check.cases import CheckCase
from kernels.problem import AttentionProblem, InvalidProblem, tiles
from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_run
from kernels.worker.case_requests import CheckRequest
from tests import BUGGY_KERNEL as BUGGY
from tests import ROOT
from tests.viz.check.pages import SMALL, has_verdict, metrics, open_page, page, settled, words
from viz.shared import runs


def test_a_kernel_of_ours_passes_with_the_numbers_behind_it(links):
    app = settled(open_page(**SMALL, kernel="flash2"), has_verdict)
    assert not app.exception
    assert "PASSES" in words(app)
    assert list(metrics(app)) == ["O error", "lse error", "dQ error", "dK error", "dV error", "3 runs"]
    assert metrics(app)["3 runs"] == ("equal", "bit by bit")
    assert all(delta.startswith("≤") for label, (_, delta) in metrics(app).items() if label.endswith("error"))
    assert len(app.get("plotly_chart")) >= 4


def test_a_tile_links_into_explore_at_its_step(links):
    app = settled(open_page(**SMALL, kernel="flash2", tile="0.2.1"), has_verdict)
    assert "query tile 2, key tile 1" in words(app)
    problem = AttentionProblem.from_dict(SMALL)
    before = sum(tiles.visited_tiles(problem, q_tile).end for q_tile in range(2))
    assert links[-1]["step"] == str(before + 1 + 1)
    assert {name: links[-1][name] for name in SMALL} == {name: str(value) for name, value in SMALL.items()}
    assert links[-1]["algorithm"] == "flash2"


@pytest.mark.parametrize("tile", ["", "9.9.9", "0.99.0", "a.b.c", "1.2", "²..", "-1.0.0", "0.0." + "9" * 50])
def test_a_tile_that_is_none_falls_back_to_the_worst(tile, links):
    app = settled(open_page(**SMALL, kernel="flash2", tile=tile), has_verdict)
    assert not app.exception
    assert re.search(r"Head 0, query tile [0-2], key tile [01]:", words(app))


def test_sensitivity_and_report_are_there():
    app = settled(
        open_page(**SMALL, kernel="flash2"),
        lambda app: any("Scale of the input" in element.value for element in app.caption),
    )
    assert any("Tile sizes" in element.value for element in app.caption)
    assert [button.label for button in app.get("download_button")] == [
        "Report as one HTML file",
        "Numbers as JSON",
    ]
    assert app.code[0].value.startswith("python -m kernels.check --kernel flash2 --shapes 48x64")


def test_a_kernel_that_does_not_take_the_problem_is_not_checked():
    app = settled(open_page(**SMALL | {"kv_len": 63}, kernel="flash1", gradients="true"), has_verdict)
    assert "forward only" in words(app)
    other = open_page(**SMALL | {"q_heads": 3, "kv_heads": 2})
    assert not other.exception
    assert "kv_heads=2 is not accepted" in other.error[0].value
    assert other.number_input(key="q_heads").value == 3


def file_of(**named):
    buffer = io.BytesIO()
    np.savez(buffer, **named)
    return buffer.getvalue()


def tensors(factor=1.0):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 2, 20, 16)).astype(np.float32) for _ in range(3))
    scores = q.astype(float) @ k.transpose(0, 1, 3, 2) / 4.0
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    o = (weights / weights.sum(axis=-1, keepdims=True)) @ v
    o[0, 1, 7, 3] *= factor
    return {"q": q, "k": k, "v": v, "o": o.astype(np.float32)}


def upload(app, data, name="mine.npz"):
    app.file_uploader[0].upload(name, data, "application/octet-stream")
    return app.run()


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "PASSES"), (1.5, "FAILS")])
def test_a_result_from_a_file_is_judged(factor, verdict):
    app = settled(upload(open_page(**SMALL), file_of(**tensors(factor))), has_verdict)
    assert not app.exception
    assert f"{verdict}" in words(app)
    assert "mine.npz: query, key, value, output" in words(app).replace("\\", "")
    assert "tensors of your file" in words(app)
    if verdict == "FAILS":
        assert "head 1, row 7, column 3" in str(app.dataframe[0].value)


def test_a_kernel_runs_on_the_tensors_of_a_file(links):
    app = settled(
        upload(open_page(**SMALL, kernel="flash2", judge="kernel"), file_of(**tensors())), has_verdict
    )
    assert not app.exception
    assert "PASSES" in words(app)
    assert "3 runs" in metrics(app)
    assert links[-1]["q_len"] == "20"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "The file is empty"),
        (b"nonsense", "neither an .npz nor a .safetensors"),
        (file_of(q=np.zeros((2, 2))), "There is no key"),
        (
            file_of(**{name: np.zeros((1, 1, 4, 7), np.float32) for name in "qkv"}),
            "head_dim=7 is not accepted",
        ),
    ],
)
def test_a_file_that_is_not_taken_is_explained_and_nothing_is_lost(data, message):
    app = upload(open_page(**SMALL), data)
    assert not app.exception
    assert message in app.error[0].value.replace("\\", "")
    assert not has_verdict(app)  # it would be about other tensors
    assert "Nothing is checked until the file is taken or removed." in words(app)
    assert app.number_input(key="q_len").value == SMALL["q_len"]


def test_names_in_a_file_are_shown_as_they_are():
    name = "![x](http://nowhere.example/a.png)"
    app = upload(open_page(**SMALL), file_of(**tensors(), **{name: np.zeros(3)}), "*my*.npz")
    (words_of_file,) = (each.value for each in app.caption if "left alone" in each.value)
    assert "](" not in words_of_file
    assert words_of_file.startswith("\\*my\\*.npz")


def test_a_scale_of_0_is_refused_and_not_replaced():
    app = open_page(**SMALL, scale=0)
    assert not app.exception
    assert "scale=0.0 is not accepted" in app.error[0].value
    assert not has_verdict(app)


@pytest.mark.parametrize(("function", "verdict"), [("attention", "FAILS"), ("attention_fixed", "PASSES")])
def test_a_kernel_named_on_the_command_line_is_checked(named, function, verdict):
    named(f"{BUGGY}:{function}")
    app = settled(open_page(**SMALL), has_verdict)
    assert not app.exception
    assert app.selectbox(key="kernel").value == "user"
    assert verdict in words(app)
    assert f"buggy_kernel.py:{function}" in words(app)


def test_a_kernel_of_torch_is_measured_beside_the_others(named, tmp_path):
    (tmp_path / "mine.py").write_text(
        "import torch\ndef attention(q, k, v, attn_mask=None, is_causal=False):\n"
        "    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, dim=-1) @ v\n"
    )
    named(f"{tmp_path / 'mine.py'}:attention")
    app = settled(open_page(**SMALL), lambda app: "median, peers in turn on the same tensors" in words(app))
    assert not app.exception
    assert "PASSES" in words(app)
    assert "mine.py:attention" in "".join(chart.proto.spec for chart in app.get("plotly_chart"))


def test_the_way_to_check_a_kernel_of_ones_own_is_on_the_page_until_one_is_named(named):
    commands = [each.value for each in open_page(**SMALL).code]
    assert "streamlit run app.py -- --kernel my_file.py:my_function" in commands
    (shown,) = [each.split()[-1] for each in commands if "examples/" in each]
    named(str(ROOT / shown))  # the one to try it on is there, and fails
    app = settled(open_page(**SMALL, kernel=shown.split("/")[1]), has_verdict)
    assert "FAILS" in words(app)
    assert not [each for each in app.code if "my_file.py" in each.value]


def test_without_the_command_line_no_url_names_a_kernel():
    app = open_page(**SMALL, kernel="user")
    assert "user" not in app.selectbox(key="kernel").options
    assert app.selectbox(key="kernel").value != "user"
    job = runs.run_store().job(CheckRequest(CheckCase(AttentionProblem.from_dict(SMALL), "user")))
    with pytest.raises(InvalidProblem, match="no file was named on the command line"):
        job.result(60)


def test_a_wrong_name_is_explained_on_the_page(named):
    named("nothing.py:attention")
    app = open_page(**SMALL)
    assert not app.exception
    assert "there is no file nothing.py here" in app.error[0].value
    assert "user" not in app.selectbox(key="kernel").options


def test_without_triton_the_recorded_verdict_is_shown(monkeypatch):
    monkeypatch.setattr(runs, "triton_missing", lambda: "Triton has no wheel for Darwin")
    monkeypatch.setattr("viz.shared.layout.triton_missing", lambda: "Triton has no wheel for Darwin")
    monkeypatch.setattr(runs, "run_store", lambda: None)
    app = page().run()
    assert not app.exception
    assert app.info[0].value.startswith("Triton is missing. Nothing can be checked here")
    report = recorded_run(next(iter(PRESETS.values())).problem, "flash2").report
    assert metrics(app)["O error"][0] == f"{report.max_error:.1e}"
    assert json.dumps(words(app)).count("PASSES") == 1


def test_a_worker_that_does_not_start_is_not_said_to_lack_triton(monkeypatch):
    client = SimpleNamespace(device=None, start_failure="it cannot be started: [Errno 12]")
    monkeypatch.setattr(runs, "run_store", lambda: SimpleNamespace(client=client))
    app = page().run()
    assert not app.exception
    found = app.info[0].value.replace("\\", "")
    assert found.startswith(
        "The worker process does not start: it cannot be started: [Errno 12]. Nothing can"
    )
    assert "Triton" not in found
