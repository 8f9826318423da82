"""app -> viz -> kernels, never back; the Streamlit process never imports triton. Told by import, in fresh processes."""

import ast
import subprocess
import sys

import pytest

from tests import ROOT


def imported_by(statement):
    code = f"import sys\n{statement}\nprint(' '.join(sorted({{name.split('.')[0] for name in sys.modules}})))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


def modules(folder):
    names = [path.relative_to(ROOT).with_suffix("") for path in (ROOT / folder).rglob("*.py")]
    return sorted(".".join(name.parts).removesuffix(".__init__") for name in names if name.stem != "__main__")


def test_kernels_import_neither_streamlit_nor_plotly_nor_viz():
    found = imported_by("import " + ", ".join(modules("kernels")))
    assert {"torch", "triton", "kernels"} <= found
    assert not {"streamlit", "plotly", "viz"} & found


def test_viz_imports_neither_triton_nor_torch():
    found = imported_by("import " + ", ".join(name for name in modules("viz") if not name.endswith(".page")))
    assert {"streamlit", "plotly", "kernels"} <= found
    assert not {"triton", "torch"} & found


def test_the_test_can_fail():
    assert "triton" in imported_by("import kernels.algorithms.flash2.forward")


def test_importing_kernels_alone_is_light():
    assert not {"torch", "triton", "numpy"} & imported_by("import kernels")


@pytest.mark.parametrize(
    "path", sorted((ROOT / "viz").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_only_theme_holds_a_colour(path):
    if path.name == "theme.py":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert not (
                node.value.startswith("#") and len(node.value) in (4, 7) and node.value[1:].isalnum()
            ), node.value
