"""The app as it is started: bound to this machine, protected, quiet, and with a kernel only from the command line."""

import tomllib

import pytest

from kernels.check.file_rules import MAX_FILE_BYTES
from kernels.problem import InvalidProblem
from tests import ROOT
from viz.shared import options

CONFIG = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text())


def test_it_binds_to_this_machine_and_keeps_its_protection():
    server = CONFIG["server"]
    assert server["address"] == "127.0.0.1"
    assert server["enableXsrfProtection"] is True
    assert server["enableCORS"] is True


def test_it_tells_nobody_anything():
    assert CONFIG["browser"]["gatherUsageStats"] is False
    assert CONFIG["client"]["showErrorDetails"] in ("type", "none", False)
    assert CONFIG["client"]["showErrorLinks"] is False  # links that carry an error message to other sites


def test_files_are_limited_before_they_are_read():
    assert CONFIG["server"]["maxUploadSize"] << 20 <= MAX_FILE_BYTES


def test_nothing_loads_a_pickle():
    banned = ("allow_pickle=True", "import pickle", "torch.load(", "np.load(source)", "eval(", "exec(")
    for folder in ("kernels", "viz"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            assert not [words for words in banned if words in text], path


@pytest.fixture
def kernel_file(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("def attention(q, k, v): return v\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mine.py"


@pytest.mark.parametrize(
    "words",
    [
        ["--kernel", "mine.py:attention"],
        ["--kernel=mine.py:attention"],
        ["--other", "x", "--kernel", "mine.py:attention"],
    ],
)
def test_a_kernel_is_taken_from_the_command_line(words, kernel_file, monkeypatch):
    monkeypatch.setattr("sys.argv", ["app.py", *words])
    kernel = options.named_kernel()
    assert (kernel.path, kernel.function, kernel.name) == (kernel_file, "attention", "mine.py:attention")
    assert options.kernel_argument() == f"{kernel_file}:attention"


@pytest.mark.parametrize("words", [["--kernel"], ["--kernel", "mine.py"], ["--kernel", "gone.py:attention"]])
def test_a_wrong_one_is_explained_and_starts_no_worker_with_it(words, kernel_file, monkeypatch):
    monkeypatch.setattr("sys.argv", ["app.py", *words])
    with pytest.raises(InvalidProblem, match=r"expected a Python file and a function in it|there is no file"):
        options.named_kernel()
    assert options.kernel_argument() == ""


def test_without_one_nothing_is_named(monkeypatch):
    monkeypatch.setattr("sys.argv", ["app.py"])
    assert options.named_kernel() is None
