"""A stop of one run at the same place of another: the same kernel, and the same phase."""

import pytest

from kernels.problem.presets import PRESETS
from kernels.recordings import recorded_run
from tests.viz.player.runs import GPU
from viz.player.data import player_data

pytestmark = pytest.mark.browser


def data_of(preset, algorithm):
    return player_data(recorded_run(PRESETS[preset].problem, algorithm).trace, "recorded", GPU)


def moved(run, stops, old, new):
    """[place, name of its kernel, name of its phase] of each stop in the new run."""
    script = """(() => {
      const [from, to] = [given.old, given.now].map(model.makeModel);
      return given.stops.map((stop) => {
        const place = moved_stop.movedStop(stop, from, to);
        const [step, phase] = place.split(".").map(Number);
        return [place, to.kernels[to.kernel[step]]?.name, to.phases[step]?.[phase - 1]?.name ?? ""];
      });
    })()"""
    return run(script, {"old": old, "now": new, "stops": stops})


def test_a_stop_in_a_phase_is_in_that_phase_of_the_nearest_step_that_has_it(run):
    """Step 2 is on the diagonal of the causal run, and loads Q; that of the full run does neither."""
    causal, full = data_of("gpt2", "flash2"), data_of("tiny", "flash2")
    places = [place[2] for place in moved(run, ["2.1", "2.4", "9.1", "135.8"], causal, full)]
    script = """(() => {
      const from = model.makeModel(given);
      return ["2.1", "2.4", "9.1", "135.8"].map((stop) => {
        const [step, phase] = stop.split(".").map(Number);
        return from.phases[step][phase - 1].name;
      });
    })()"""
    assert places == run(script, causal)


def test_a_phase_that_the_other_run_lacks_gives_way_to_the_one_before(run):
    causal, full = data_of("gpt2", "flash2"), data_of("tiny", "flash2")
    script = "model.makeModel(given).phases[0].findIndex(({ tells }) => tells === 'mask') + 1"
    masked = run(script, causal)
    ((_, _, phase),) = moved(run, [f"0.{masked}"], causal, full)
    assert phase == "QK^T"


def test_a_stop_after_some_steps_stays_in_its_kernel(run):
    """Three kernels of a backward pass: the end of each is the end of the same one in the other run."""
    old, new = data_of("gpt2", "backward"), data_of("tiny", "backward")
    ends = "(() => { const { kernel } = model.makeModel(given);"
    ends += " return [0, 1, 2].map((k) => String(kernel.lastIndexOf(k) + 1)) })()"
    before, after = run(ends, old), run(ends, new)
    assert [place for place, _, _ in moved(run, before, old, new)] == after
    names = [kernel["name"] for kernel in new["kernels"]]
    inside = [f"{int(end) - 1}.1" for end in before]
    assert [kernel for _, kernel, _ in moved(run, inside, old, new)] == names


def test_the_first_step_stays_the_first_and_moments_stay(run):
    old, new = data_of("gpt2", "flash2"), data_of("tiny", "flash2")
    assert [place for place, _, _ in moved(run, ["0", "136", "gpu:30", "race:5"], old, new)] == [
        "0",
        "64",
        "gpu:30",
        "race:5",
    ]
