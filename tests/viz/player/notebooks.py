"""Runs a notebook's cells in order: in a fresh process in the notebook's folder, as Jupyter does."""

import json
import subprocess
import sys

CELLS = """
import ast, json, sys
shown, names = [], {}
for source in json.load(open(sys.argv[1])):
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
    shown.append(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))
json.dump({"shown": shown, "modules": sorted(sys.modules)}, open(sys.argv[2], "w"))
"""


def run_notebook(path, folder):
    """(outputs of the code cells, names of the imported modules); `folder` is for files in between."""
    notebook = json.loads(path.read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    (folder / "cells.json").write_text(json.dumps(cells))
    command = [sys.executable, "-c", CELLS, folder / "cells.json", folder / "shown.json"]
    run = subprocess.run(command, cwd=path.parent, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    report = json.loads((folder / "shown.json").read_text())
    return report["shown"], report["modules"]
