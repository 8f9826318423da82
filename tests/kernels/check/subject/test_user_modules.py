"""Loading the user's file: its folder, its package, and new code after every edit."""

import sys

import pytest

from kernels.check.case import cases
from kernels.check.case.limits import Limits
from kernels.check.subject.user_kernel import UserKernel
from kernels.check.subject.user_modules import package_root, source_files
from tests import ROOT

RIGHT = "torch.softmax((q @ k.mT).float() * q.shape[-1] ** -0.5, -1).to(v.dtype) @ v"
WRONG = "torch.softmax((q @ k.mT).float(), -1).to(v.dtype) @ v"


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def core(expression):
    return f"import torch\ndef core(q, k, v):\n    return {expression}\n"


LAYOUTS = {
    "beside": ("mine.py", "helper.py", "from helper import core\n"),
    "relative": ("pack/mine.py", "pack/helper.py", "from .helper import core\n"),
    "package": ("pack/sub/mine.py", "pack/deep/helper.py", "from ..deep.helper import core\n"),
    "called kernels": ("mine.py", "kernels/attention/fast.py", "from kernels.attention.fast import core\n"),
    "inside kernels": ("kernels/mine.py", "kernels/check/fast.py", "from kernels.check.fast import core\n"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_edit_of_anything_that_it_imports_is_the_code_that_runs_next(layout, tmp_path, checked):
    main, helper, line = LAYOUTS[layout]
    body = f"{line}def attention(q, k, v):\n    return core(q, k, v)\n"
    folders = ("pack", "pack/sub", "pack/deep") if layout == "package" else ()
    if "kernels" in layout:
        folders = ("kernels", helper.rpartition("/")[0])
    packages = {f"{name}/__init__.py": "" for name in folders}
    write(tmp_path, {main: body, helper: core(RIGHT), **packages})
    kernel = UserKernel.parse(f"{tmp_path / main}:attention")
    before = kernel.version
    assert checked(tmp_path / main).verdict == "pass"
    write(tmp_path, {helper: core(WRONG)})
    assert kernel.version != before
    assert checked(tmp_path / main).verdict == "fail"
    assert sys.modules["kernels.check.case.cases"] is cases
    assert not [name for name in sys.modules if name.partition(".")[0] in ("helper", "pack")]


def test_imports_inside_a_function_find_the_users_package(tmp_path, checked):
    mine = "def attention(*qkv):\n    from kernels.fast import core\n    return core(*qkv)\n"
    write(tmp_path, {"mine.py": mine, "kernels/fast.py": core(RIGHT)})
    assert checked(tmp_path / "mine.py").verdict == "pass"


def test_a_module_that_loads_late_is_left_alone(tmp_path, checked):
    late = """import sys, types
class Late(types.ModuleType):
    def __getattr__(self, name):
        sys.modules[f"late{name}"] = types.ModuleType(name)
        raise AttributeError(name)
sys.modules["late"] = Late("late")
"""
    mine = f"{late}{core(RIGHT)}def attention(q, k, v):\n    return core(q, k, v)\n"
    write(tmp_path, {"mine.py": mine})
    assert checked(tmp_path / "mine.py").verdict == "pass"
    sys.modules.pop("late", None)  # torch's compiler would ask it for its file in a later test


def test_all_files_are_found_and_a_loop_of_imports_ends(tmp_path):
    write(tmp_path, {"a.py": "import b", "b.py": "import a, c.d\nimport json", "c/d.py": "", "e.py": ""})
    assert {path.name for path in source_files(tmp_path / "a.py")} == {"a.py", "b.py", "d.py"}
    assert package_root(tmp_path / "a.py") == (tmp_path, "a")
    write(tmp_path, {"c/x.py": "from ..a import b"})
    assert package_root(tmp_path / "c/x.py") == (tmp_path.parent, f"{tmp_path.name}.c.x")


# --- what a file declares ---


def test_cases_outside_the_declared_limits_are_skipped_in_words(checked):
    limits = 'CHECK = {"head_dims": [32], "lengths": 16, "dtypes": ["float16"], "strides": "contiguous"}\n'
    source = f"{limits}import torch\ndef attention(q, k, v):\n    return {RIGHT}\n"
    result = checked(source, q_len=17, dtype="bfloat16", layout="sliced")
    assert result.verdict == "invalid"
    for words in ("head_dim 16", "lengths 17 and 16", "bfloat16", "sliced tensors"):
        assert words in result.reason
    assert checked(source, head_dim=32).verdict == "pass"


@pytest.mark.parametrize(
    "values",
    [[], {"head_dim": [64]}, {"lengths": 0}, {"gqa": 1}, {"dtypes": ["fp16"]}, {"head_dims": ["64"]}],
)
def test_a_declaration_that_is_none_is_refused_by_name(values):
    with pytest.raises(ValueError, match=next(iter(values), "list") if values else "list"):
        Limits.declared(values)


def test_another_layout_a_top_left_mask_and_a_window_of_its_own_are_checked_as_declared(checked):
    adapter, shape = ROOT / "examples/adapters.py", {"kv_len": 24, "head_dim": 32}
    causal = checked(adapter, q_heads=2, kv_heads=1, mask="causal", **shape)
    assert (causal.verdict, len(causal.tensors)) == ("pass", 2), causal.reason
    assert any("aligned to the top left" in note for note in causal.notes)
    assert checked(adapter, mask="window", window_left=3, window_right=1, **shape).verdict == "pass"
