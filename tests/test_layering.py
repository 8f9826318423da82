"""Imports go down the floors; the Streamlit process never imports triton or torch."""

import ast
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.algorithms import ALGORITHMS
from kernels.trace.algorithm import Algorithm, SourceRef
from tests import ROOT
from tests.imports import Sources, module_name

FLOORS = (
    (
        "kernels.file_format",
        "kernels.references",
        "kernels.oracle.report",
    ),  # files that import nothing of ours
    ("kernels.device",),  # where it runs
    ("kernels.problem",),  # what is asked; inputs look at the free memory
    ("kernels.tool_arguments",),  # what command lines check of their options
    ("kernels.trace",),  # what a kernel wrote down, and the vocabulary of an algorithm's entry
    ("kernels.sanitizer",),  # what the interpreter sees of any kernel's memory
    ("kernels.oracle",),  # what is right; judges traces
    ("kernels.primitives",),  # what kernels share
    ("kernels.algorithms",),
    ("kernels.attention",),  # the public call, by the algorithms' launchers
    ("kernels.traffic",),
    ("kernels.measure",),
    ("kernels.recordings",),  # read documents of measure
    ("kernels.models",),  # facts of models, and what their attention costs
    ("kernels.lessons",),
    ("kernels.worker",),  # the client of the child process, and requests
    ("kernels.check",),  # has its own requests, command line and peers of measure
    ("kernels.worker.server",),  # the child process, which takes requests of both
    (
        "kernels.record",
        "kernels.tune",
        "kernels.compare",
        "kernels.worker.__main__",
        "kernels.attention.context_parallel.__main__",
    ),  # what users start
    ("viz.shared",),
    ("viz.player",),
    ("viz.explore", "viz.learn", "viz.measure", "viz.check", "viz.talk", "viz.model", "viz.ranks"),  # pages
    ("viz.site",),  # what is published of them
)
"""Folders from bottom to top. A folder imports only from floors below its own: two of one floor know nothing
of each other."""

DOORWAY = "kernels"
"""`kernels/__init__.py` may name any module: it loads one when a public name is first used."""


def folder_of(module):
    """A folder, or a module that has a floor of its own."""
    own = any(module in floor for floor in FLOORS)
    return module if own else ".".join(module.split(".")[:2])


def floor_of(module):
    """Number of a module's floor; the packages themselves, which import nothing, are at the bottom."""
    if "." not in module:
        return -1
    return next(number for number, floor in enumerate(FLOORS) if folder_of(module) in floor)


def upward(sources):
    """Imports that do not go down."""
    for found in sources.imports():
        within = found.importer == DOORWAY or folder_of(found.imported) == folder_of(found.importer)
        if not within and floor_of(found.imported) >= floor_of(found.importer):
            yield found


def foreign_modules(entry: Algorithm, package: str) -> list[str]:
    """Modules that an entry names by a string although they are not its own.

    Primitives below a call lie on a lower floor, and may be named. A kernel's source taken from another entry
    is its.
    """
    earlier = (other for other in ALGORITHMS.values() if other.rank < entry.rank)
    taken = [kernel.source for other in earlier for kernel in other.kernels]
    refs = [kernel.source for kernel in entry.kernels if kernel.source not in taken]
    shared = [module for ref in refs for module, _ in ref.steps]
    own = [entry.runner, *(part.module for ref in refs for part in (ref, *ref.parts))]
    lower = [module for module in shared if floor_of(module) >= floor_of(package)]
    return [module for module in own + lower if not module.startswith(f"{package}.")]


# --- floors ---


def test_every_folder_has_its_floor():
    found = {folder_of(name) for name in Sources(ROOT).files if "." in name}
    assert found == {folder for floor in FLOORS for folder in floor}


def test_imports_go_down_the_floors():
    assert list(upward(Sources(ROOT))) == []


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_entry_names_only_modules_of_its_own_folder(name):
    entry = ALGORITHMS[name]
    assert foreign_modules(entry, entry.runner.rpartition(".")[0]) == []
    assert (ROOT / entry.runner.rpartition(".")[0].replace(".", "/") / "entry.py").exists()


PLANTED = {
    "kernels/trace/upward.py": "import kernels.worker.client",
    "kernels/problem/sideways.py": "from kernels import worker",
    "kernels/oracle/hidden.py": "def f():\n    from kernels.traffic import modelled",
    "kernels/primitives/loaded.py": "import importlib\nimportlib.import_module('kernels.algorithms.new')",
    "kernels/oracle/public.py": "from kernels import run_traced",
    "kernels/algorithms/relative.py": "from ..worker import client",
    "viz/learn/page.py": "from viz.measure import page",
    "viz/shared/page.py": "from viz import explore",
}


def test_an_import_that_does_not_go_down_is_found(tmp_path):
    others = ["worker/__init__", "worker/client", "traffic/modelled", "algorithms/new"]
    others = [f"kernels/{name}.py" for name in others] + ["viz/measure/page.py", "viz/explore/__init__.py"]
    for path in (*others, *PLANTED):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("import numpy\n")
    assert list(upward(Sources(tmp_path))) == []
    for path, source in PLANTED.items():
        (tmp_path / path).write_text(source)
    found = [found.importer for found in upward(Sources(tmp_path))]
    assert found == sorted(module_name(Path(path)) for path in PLANTED)


def test_an_entry_that_names_a_foreign_module_is_found():
    entry, package = ALGORITHMS["flash2"], "kernels.algorithms.flash2"
    (kernel,) = entry.kernels
    worker = replace(kernel.source, steps=(("kernels.worker.server", "serve"),))
    for planted in (
        replace(entry, runner="kernels.algorithms.flash1.run"),
        replace(entry, kernels=(replace(kernel, source=SourceRef("kernels.measure.counters", "main")),)),
        replace(entry, kernels=(replace(kernel, source=worker),)),
    ):
        assert len(foreign_modules(planted, package)) == 1


# --- processes ---


def imported_by(statements):
    """Top-level names of all modules that a fresh process has imported after running the statements."""
    code = f"import sys\n{statements}\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    return set(run.stdout.splitlines()[-1].split())


def modules(package):
    names = Sources(ROOT).files
    started = {name for name in names if name.startswith("kernels.") and name.endswith(".__main__")}
    return sorted(name for name in names if name.split(".")[0] == package and name not in started)


def test_kernels_import_neither_streamlit_nor_plotly_nor_viz():
    found = imported_by("import " + ", ".join(modules("kernels")))
    assert {"torch", "triton", "kernels"} <= found
    assert not {"streamlit", "plotly", "viz"} & found


def test_viz_imports_neither_triton_nor_torch():
    found = imported_by("import " + ", ".join(name for name in modules("viz") if not name.endswith(".page")))
    assert {"streamlit", "plotly", "kernels"} <= found
    assert not {"triton", "torch"} & found


RENDER = """
from tests.app.pages import open_page
from viz.shared import runs
def show(page, **query):
    app = open_page(page, **query)
    assert not app.exception, (page, query, app.exception)
open_page()
store = runs.run_store()
store.client.wait_ready(60)
small = dict(q_len=32, kv_len=32, block_m=16, block_n=16, head_dim=16)
"""
"""Opens pages in a process whose worker is ready, so that they show what they show with one."""


def pages():
    """Paths of the URLs of all pages, and of the chapters of Learn with the path that leads there."""
    paths = ["", *re.findall(r'url_path="(\w+)"', (ROOT / "app.py").read_text())]
    chapters = re.findall(r"^\[(\w+)\]$", (ROOT / "viz/learn/chapters.toml").read_text("utf-8"), re.MULTILINE)
    return [(path, {}) for path in paths] + [("learn", {"chapter": name}) for name in chapters]


def test_rendering_every_page_imports_neither_triton_nor_torch():
    opened = pages()
    assert len(opened) >= 4 + 7
    shown = "\n".join(f"show({path!r}, **{query!r} | small)" for path, query in opened)
    found = imported_by(f"{RENDER}{shown}\nstore.client.close()")
    assert {"streamlit", "viz"} <= found
    assert not {"triton", "torch"} & found


def test_the_maths_of_the_chapters_is_numpy_alone():
    maths = [name for name in modules("viz") if re.search(r"viz\.learn\.\w+\.maths", name)]
    assert len(maths) >= 7
    assert not {"streamlit", "plotly", "triton", "torch"} & imported_by("import " + ", ".join(maths))


def test_importing_kernels_alone_is_light():
    assert not {"torch", "triton", "numpy"} & imported_by("import kernels")


def test_a_first_call_loads_no_compiler():
    """torch.compile with sympy takes two seconds of a processor to load."""
    calls = (
        "import torch\nfrom kernels import flash_attention\n"
        "from kernels.device.determinism import filled_memory\nquery = torch.ones(1, 1, 4, 16)\n"
        "with filled_memory():\n    for _ in range(3):\n        flash_attention(query, query, query)"
    )
    found = imported_by(calls)
    assert {"torch", "triton"} <= found
    assert "sympy" not in found


def test_only_theme_holds_a_colour():
    colour = re.compile(r"#[^\W_]{3}([^\W_]{3})?")
    for path in (ROOT / "viz").rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text())) if path.name != "theme.py" else ()
        texts = (node.value for node in nodes if isinstance(node, ast.Constant))
        assert not [text for text in texts if colour.fullmatch(str(text))], path
