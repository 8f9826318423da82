"""Whether the steps and the row of a scene are in its run. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from viz.player.drawn import Drawn
from viz.player.places import tile_at, wrong_row, wrong_state, wrong_step
from viz.player.talk.scene import Scene, Stop


def misplaced(scene: Scene, shown: Sequence[Drawn]) -> Iterator[tuple[str, str]]:
    """The fields of a scene that its run, or both runs, do not have: field, and what is accepted."""
    for number, stop in enumerate(scene.stops):
        if wrong := wrong_step(stop.step, shown):
            yield "stops" if number else "step", f"{stop.step!r} {wrong}"
    if scene.view == "numbers" and not shown[0].matrices:
        accepted = "tiles of at most 16 × 16 and head_dim up to 64, such as tiny"
        yield "view", f"'numbers', but this run has no numbers; expected {accepted}"
    elif "state" in scene.hidden and (wrong := _known_too_early(scene.stops[0].step, shown[0])):
        yield "hidden", f"'state' {wrong}"
    if scene.row and not scene.versus and (wrong := _wrong_row(scene, shown[0])):
        yield "row", f"{scene.row!r} {wrong}"


def in_state(scene: Scene, state: Mapping[str, str], shown: Sequence[Drawn]) -> Scene:
    """A scene as a player shows it in a state; what a talk's run does not have is left out."""
    field, first = ("place", "race:0") if scene.versus else ("step", "0")
    step, row = state.get(field, ""), state.get("row", "")
    if wrong_state(field, step, shown):
        step = first
    if scene.versus or wrong_state("row", row, shown):
        row = ""
    is_open = state.get("open") == "tile" and shown[0].trace.matrix_row is None and shown[0].matrices
    view = "bytes" if scene.versus else "numbers" if is_open else "grid"
    scene = replace(scene, stops=(Stop(step),), row=row, view=view)
    return replace(scene, row="") if "row" in dict(misplaced(scene, shown)) else scene


def _known_too_early(step: str, run: Drawn) -> str:
    """Why m of the first stop is known already; "" if it is still to be asked."""
    done, _, phase = step.partition(".")
    told = run.tells(int(done)) if phase and int(done) < run.count else []
    last = told.index("row max") if "row max" in told else 0
    if last and int(phase) <= last:
        return ""
    accepted = f"up to {done}.{last}" if last else "such as 1.2, of a forward pass"
    return f"is known at {step}, or not told there; expected a step in a phase before the row max, {accepted}"


def _wrong_row(scene: Scene, run: Drawn) -> str:
    """Why there is no such row, or why no stop shows it in its numbers; "" if it is right."""
    if wrong := wrong_row(scene.row, run):
        return wrong
    head, number = map(int, scene.row.split("."))
    problem = run.trace.problem
    tiles = [tile_at(stop.step, run) for stop in scene.stops]
    if scene.view != "numbers" or (head, number // problem.block_m) in tiles:
        return ""
    at, first = tiles[0][0], tiles[0][1] * problem.block_m
    last = min(first + problem.block_m, run.algorithm.rows(problem)) - 1
    return f"is not in the tile that is shown; expected {at}.{first} to {at}.{last}"
