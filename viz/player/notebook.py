"""The player in a notebook that shows `_repr_html_`, such as Jupyter: `show(trace)` at the end of a cell.

    from kernels import AttentionProblem, run_traced
    from viz.player.notebook import show

    show(run_traced(AttentionProblem(q_len=128, kv_len=128), "flash2"))

The output is one HTML page in a frame of its own, with its data in it: it plays without a server, without a
network and without this process, also in a notebook that was saved and sent to somebody.
"""

import html
from dataclasses import dataclass

from kernels.device.gpus import DEFAULT_GPU, GPUS
from kernels.trace import Trace
from viz.player.data import duel_data, player_data
from viz.player.html_page import State, export_html, style_sheets
from viz.player.places import PATTERNS, is_written
from viz.shared.provenance import trace_provenance


@dataclass(frozen=True)
class Inline:
    """What a cell shows: a page in a frame, so that its styles and keys stay apart from the notebook's."""

    page: str
    """The page as HTML; write it into a file to have it outside of the notebook."""
    height: int

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{html.escape(self.page)}" title="player" allow="fullscreen" '
            f'style="width: 100%; height: {self.height}px; border: 0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"Inline(a page of {len(self.page):,} characters, shown by a notebook)"


def show(
    trace: Trace,
    versus: Trace | None = None,
    *,
    step: str | int = "",
    row: str = "",
    opened: bool = False,
    height: int = 600,
) -> Inline:
    """The player of a run, or of two side by side, for the end of a cell.

    `step` is where it stands, as the app has it in its URL: 37 or "37" after 37 steps, "37.2" in the second
    phase of the next one, "gpu:12" at moment 12 of all programs at once; of two runs
    "bytes:500". `row` is the row that is told, as head and number: "0.20". `opened` shows the tile in its
    numbers, `height` is that of the frame in pixels. Raises ValueError for a step or row of another form.
    """
    place = "place" if versus else "step"
    state: State = {place: str(step), "row": row, "open": "tile" if opened else ""}
    state = {name: value for name, value in state.items() if value}
    for name, value in state.items():
        if not is_written(name, value):
            called = "step" if name == place else name
            raise ValueError(f"{called}={value!r} is not accepted; expected {PATTERNS[name][1]}")
    first = trace, trace_provenance(trace)
    if versus:
        data = duel_data(first, (versus, trace_provenance(versus)), GPUS[DEFAULT_GPU])
    else:
        data = player_data(*first, GPUS[DEFAULT_GPU])
    return Inline(export_html(data, state, style_sheets("notebook")), height)
