"""The shipped talks: all load from recordings, and what each scene says holds in its run."""

import itertools
import re

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS, algorithm_of
from kernels.algorithms.standard.traffic import matrix_bytes
from kernels.device.gpus import GPUS
from kernels.primitives.tuning import shape_class, tuned_table
from kernels.recordings import recorded_document, recorded_measurement, recorded_run
from kernels.traffic.operations import count_operations
from tests.viz.player.runs import GPU
from viz.player.drawn import drawn_of
from viz.player.lanes import recorded_lane_runs
from viz.player.talk.bars import bar_of, parts_of
from viz.player.talk.chart import chart_curves, drawn_curves, recorded_curves
from viz.player.talk.data import UnknownFigure, filled, run_figures, talk_data
from viz.player.talk.read import read_talk
from viz.shared.formats import format_ms
from viz.talk.shipped import NAMES, recorded_runs, talk_path

FIVE, FLASH3, BACKWARD = NAMES
TALKS = {name: read_talk(talk_path(name)) for name in NAMES}
SCENES = [(name, number) for name, talk in TALKS.items() for number in range(len(talk.scenes))]
NAMES_WITH_NUMBERS = re.compile(
    r"FlashAttention-[123]|GPT-2|Llama-3-8B|FP8|b?float16|float32|row 0\b|α is below 1"
)


class Shown:
    """A scene with its traces, or with its chart."""

    def __init__(self, name, number):
        talk = TALKS[name]
        self.scene, runs = talk.scenes[number], recorded_runs(talk)
        if self.scene.chart:
            return
        self.trace = runs[self.scene.run][0]
        self.other = runs[self.scene.versus][0] if self.scene.versus else None
        self.algorithm = algorithm_of(self.trace)

    def moved(self, name, trace=None):
        trace = trace or self.trace
        index = trace.tensors.index(name)
        return int((trace.tensor_bytes_read + trace.tensor_bytes_written)[:, index].sum())

    @property
    def total(self):
        return sum(self.moved(name) for name in self.trace.tensors)

    @property
    def other_total(self):
        return sum(self.moved(name, self.other) for name in self.other.tensors)

    def phase(self, stop):
        """(kernel, phase) of a stop such as "9.3", by name; without the phases for masked tiles."""
        step, _, number = self.scene.stops[stop].step.partition(".")
        step, trace = int(step), self.trace
        kernel = self.algorithm.kernels[trace.kernel[step]]
        tile = trace.q_tile if kernel.stays == "q_tile" else trace.kv_tile
        turn = (trace.kernel, trace.program, trace.batch_head, tile)
        is_first = step == 0 or any(array[step - 1] != array[step] for array in turn)
        is_last = step == trace.steps - 1 or any(array[step + 1] != array[step] for array in turn)
        steps = [phase for phase in kernel.step if not phase.only_masked] if trace.kv_tile[step] >= 0 else []
        phases = [*(kernel.before if is_first else ()), *steps, *(kernel.after if is_last else ())]
        return trace.kernels[trace.kernel[step]], phases[int(number) - 1].name

    def curves(self):
        """The values of each peer of the chart, by the place on the axis."""
        return {curve.peer: dict(values) for curve, values in drawn_curves(self.scene.chart)}

    def figure(self, name):
        return run_figures(self.trace, GPUS["H200"])[name]

    def parts(self, name):
        return [each for each, _ in parts_of(self.trace)[name]]


def rises(shown, step, row=0):
    """Whether the max of a row grows at a step that is not its first."""
    row_max, alpha = shown.trace.row_max, shown.trace.alpha
    assert shown.trace.q_tile[step] == shown.trace.q_tile[step - 1]
    shrinks = np.exp(row_max[step - 1, row] - row_max[step, row])
    np.testing.assert_allclose(alpha[step, row], shrinks, rtol=1e-5)
    return row_max[step, row] > row_max[step - 1, row]


def bytes_before(shown, kernel):
    trace = shown.trace
    return (trace.tensor_bytes_read + trace.tensor_bytes_written)[trace.kernel < kernel].sum()


def is_as_at_once(shown, step, keys, row=0):
    """Whether l of a row after a step is the sum over all scores up to there, against their max."""
    products = np.concatenate(drawn_of(shown.trace, GPU).matrices["QK^T"][: step + 1, row])
    scores = products * shown.trace.problem.scale
    assert scores.size == keys
    max_and_sum = scores.max(), np.exp(scores - scores.max()).sum()
    return np.allclose(max_and_sum, (shown.trace.row_max[step, row], shown.trace.row_sum[step, row]))


def d_is_a_mean(shown):
    """Whether the weights of each row of the first query tile add up to one, and D is their mean of dP."""
    matrices, trace = drawn_of(shown.trace, GPU).matrices, shown.trace
    own = (trace.kernel == 1) & (trace.q_tile == 0)
    weights, slopes = matrices["P"][own], matrices["dP"][own]
    mean = (weights * slopes).sum((0, 2))
    return np.allclose(weights.sum((0, 2)), 1) and np.allclose(mean, matrices["D"][0][:, 0], atol=2e-3)


def runs_at_once(shown, kernel):
    """How many programs a kernel has, if there is a moment at which all of them run."""
    own, trace = shown.trace.kernel == kernel, shown.trace
    programs = [own & (trace.program == program) for program in np.unique(trace.program[own])]
    last_start = max(trace.start_ns[each].min() for each in programs)
    return len(programs) * (last_start < min(trace.end_ns[each].max() for each in programs))


def is_one_loop_of_as_many_tokens(shown):
    """Whether each point has the tokens of the last length, and the kernel for Hopper has one loop."""
    points = [point.problem for curve in chart_curves(shown.scene.chart) for point in curve.points]
    assert recorded_document("sweeps").devices[0].compute_capability == "9.0"
    assert {each.group_size for each in points} == {1}  # then it is the sweep that runs
    loops = [kernel for kernel in ALGORITHMS["flash3_backward"].kernels if kernel.products]
    made = {name for phase in loops[0].step for name in phase.makes}
    is_one = len(loops) == 1 and made >= {"dK", "dV", "dQ"}
    return is_one and tokens_of(shown) == {max(each.q_len for each in points)}


def tile_counts(shown):
    """(visited, all) tiles of the causal or sliding mask, from the problem's own rule, row by row."""
    problem = shown.trace.problem
    rows, keys = np.arange(problem.q_len)[:, None], np.arange(problem.kv_len)[None]
    band = problem.band
    seen = (keys <= rows + band.right) & (keys >= rows - band.left)
    tiles = seen.reshape(problem.q_tiles, problem.block_m, problem.kv_tiles, problem.block_n).any((1, 3))
    return int(tiles.sum()), tiles.size


def written_once(trace, *names):
    return all(
        trace.tensor_bytes_written[:, trace.tensors.index(name)].sum()
        == trace.problem.q_len * trace.problem.head_dim * trace.problem.itemsize
        for name in names
    )


CLAIMS = {
    # FlashAttention in 5 minutes
    (FIVE, 0): lambda s: (
        s.moved("S") == s.moved("P") == 2 * matrix_bytes(s.trace.problem)
        and s.trace.kernel[[0, 15, 16, 47, 48]].tolist() == [0, 0, 1, 2, 3]
        and [s.phase(i)[1] for i in (1, 5)] == ["load K", "load V"]
    ),
    (FIVE, 1): lambda s: (
        [s.phase(i)[1] for i in range(1, 6)] == ["QK^T", "row max", "exponentials", "rescale", "PV"]
    ),
    (FIVE, 2): lambda s: (
        rises(s, 1)
        and [s.phase(i)[1] for i in range(1, 6)] == ["QK^T", "row max", "exponentials", "rescale", "PV"]
        and is_as_at_once(s, 1, keys=8)
    ),
    (FIVE, 3): lambda s: (
        not {"S", "P"} & set(s.trace.tensors)
        and tile_counts(s) == (s.trace.steps, 16)
        and written_once(s.trace, "O")
        and s.moved("lse") == 4 * s.trace.problem.q_len
    ),
    (FIVE, 4): lambda s: (
        run_figures(s.other, GPUS["H200"])["standard_bytes"] == s.figure("bytes")  # modelled, and counted
        and s.moved("S") + s.moved("P") > s.total / 2
        and len(np.unique(s.other.program)) < GPUS["H200"].sm_count
    ),
    (FIVE, 5): lambda s: (
        sms_at_work(s) == GPUS["H200"].sm_count < len(np.unique(s.trace.program)) == 12 * 16
        and s.trace.problem.group_size == len(s.trace.kernels) == 1 < len(count_operations(s.trace.problem))
    ),
    # From softmax to FlashAttention-3
    (FLASH3, 0): lambda s: (
        s.trace.kernel[[0, 15, 16, 47, 48]].tolist() == [0, 0, 1, 2, 3]
        and s.moved("S") == s.moved("P") == 2 * matrix_bytes(s.trace.problem)
        and 0.4 < 2 * s.moved("S") / s.total < 0.5
    ),
    (FLASH3, 1): lambda s: grows_by_length(s, "naive") > 3.6 and grows_by_length(s, "ours") == 2,
    (FLASH3, 2): lambda s: s.phase(1) == ("_attn_fwd", "QK^T") and s.phase(4)[1] == "rescale",
    (FLASH3, 3): lambda s: (
        rises(s, 1)
        and [s.phase(i)[1] for i in range(1, 7)] == ["QK^T", "row max", "rescale", "PV", "PV", "store O, lse"]
    ),
    (FLASH3, 4): lambda s: (
        0.6 < s.moved("O") / s.total < 2 / 3
        and (np.diff(s.trace.kv_tile) >= 0).all()
        and not {"S", "P"} & set(s.trace.tensors)
        and s.total < Shown(FLASH3, 0).total
    ),
    (FLASH3, 5): lambda s: (
        s.total == pytest.approx(Shown(FLASH3, 4).total / 2, rel=0.01)
        and tile_counts(s) == (s.trace.steps, 16)
        and s.trace.steps == Shown(FLASH3, 4).trace.steps
        and written_once(s.trace, "O")
        and len(np.unique(s.trace.program)) == 4
        and s.figure("standard_bytes") == Shown(FLASH3, 0).figure("bytes")  # modelled, and counted
    ),
    (FLASH3, 6): lambda s: hides_softmax(s),
    (FLASH3, 7): lambda s: (
        falls_at_each_length(s, "naive", "sdpa_flash", "ours")
        and runs_on_hopper(s)
        and tokens_of(s) == {max(s.curves()["naive"])}
    ),
    # The backward pass
    (BACKWARD, 0): lambda s: (
        set(s.trace.tensors) == {*"QKVO", "lse"}
        and s.trace.steps == 64
        and written_once(s.trace, "O")
        and lse_is_right(s)
    ),
    (BACKWARD, 1): lambda s: (
        [s.phase(i) for i in (1, 2)] == [("_attn_bwd_dk_dv", "QK^T"), ("_attn_bwd_dk_dv", "P from lse")]
        and s.trace.kernel[[0, 7, 8]].tolist() == [0, 0, 1]
        and np.array_equal(s.trace.lse, Shown(BACKWARD, 0).trace.lse)
    ),
    (BACKWARD, 2): lambda s: [s.phase(i)[1] for i in (1, 2, 3)] == ["dV", "dP", "dS"] and d_is_a_mean(s),
    (BACKWARD, 3): lambda s: (
        s.phase(1) == ("_attn_bwd_dk_dv", "dS")
        and written_once(s.trace, "dK", "dV")
        and np.argmax(s.trace.kv_tile[8:] > 0) == 16 - 8
        and s.trace.kernel[[8, 71, 72]].tolist() == [1, 1, 2]
        and programs_of(s, kernel=1) == s.trace.problem.kv_tiles
    ),
    (BACKWARD, 4): lambda s: (
        s.phase(1) == ("_attn_bwd_dq", "dS")
        and written_once(s.trace, "dQ")
        and np.argmax(s.trace.q_tile[72:] > 0) == 80 - 72
        and s.trace.steps == 136
        and programs_of(s, kernel=2) == s.trace.problem.q_tiles
    ),
    (BACKWARD, 5): lambda s: (
        tile_counts(s) == (136, 256)
        and written_once(s.trace, "dK", "dV", "dQ")
        and [kernels_at(s, stop) for stop in (0, 1)] == [([0], [1]), ([0, 1], [])]
        and [kernels_at(s, stop) for stop in (2, 3)] == [([0, 1], [2]), ([0, 1, 2], [])]
        and all(runs_at_once(s, kernel) == 16 for kernel in (1, 2))
        and 1.8 < s.total / bytes_before(s, kernel=2) < 2
    ),
    (BACKWARD, 6): lambda s: (
        s.trace.tensor_bytes_written.sum() < matrix_bytes(s.trace.problem)
        and s.parts("standard_bytes") == [*s.parts("standard_bytes_without_S_P"), "P", "dP", "dS"]
        and s.parts("bytes") == s.parts("bytes_without_S_P")
        and tile_counts(s) == (136, 256)
    ),
    (BACKWARD, 7): lambda s: (
        falls_at_each_length(s, "naive", "sdpa_flash", "ours") and is_one_loop_of_as_many_tokens(s)
    ),
}
"""What each scene says beyond its numbers, asked of its trace. A scene without a claim fails."""


def programs_of(shown, kernel):
    return len(np.unique(shown.trace.program[shown.trace.kernel == kernel]))


def sms_at_work(shown):
    """How many SMs run a program of the first kernel."""
    return len(np.unique(shown.trace.sm[shown.trace.kernel == 0]))


def kernels_at(shown, stop):
    """The kernels that are over at a stop of all programs at once, and those that have begun."""
    drawn, moment = drawn_of(shown.trace, GPU), shown.scene.stops[stop].step.removeprefix("gpu:")
    end = drawn.schedule.end[drawn.selection.last]
    clock = [-1, *np.unique(drawn.start), end.max()]
    time = np.interp(float(moment), range(len(clock)), clock)
    own = [shown.trace.kernel == kernel for kernel in range(len(shown.algorithm.kernels))]
    over = [kernel for kernel, steps in enumerate(own) if end[steps].max() <= time]
    begun = [kernel for kernel, steps in enumerate(own) if drawn.start[steps].min() <= time]
    return over, begun[len(over) :]


def grows_by_length(shown, peer):
    """The least growth of a curve from one length to the next, at each of which it is twice as long."""
    values = [value for _, value in sorted(shown.curves()[peer].items())]
    return min(after / before for before, after in itertools.pairwise(values))


def falls_at_each_length(shown, *peers):
    curves = shown.curves()
    lengths = set.intersection(*(set(curve) for curve in curves.values()))
    return len(lengths) > 3 and all(
        curves[slow][length] > curves[fast][length]
        for slow, fast in itertools.pairwise(peers)
        for length in lengths
    )


def tokens_of(shown):
    """How many tokens the points of a chart compute."""
    points = [point.problem for curve in chart_curves(shown.scene.chart) for point in curve.points]
    return {problem.batch * problem.q_len for problem in points}


def runs_on_hopper(shown):
    """Whether flash_attention picks the kernel for Hopper at each point, as on the GPU of the recording."""
    points = [point.problem for curve in chart_curves(shown.scene.chart) for point in curve.points]
    assert recorded_document("sweeps").devices[0].compute_capability == "9.0"
    assert "flash2" not in recorded_curves(shown.scene.chart)
    for problem in points:
        name = shape_class("forward_hopper", problem.head_dim, problem.itemsize, True, problem.kv_len)
        config = tuned_table("sm90")[name]
        tiles = problem.batch * problem.q_heads * -(-problem.q_len // config.block_m)
        assert 4 * tiles >= 3 * GPUS["H200"].sm_count
    return bool(points)


def hides_softmax(shown):
    """Whether most softmax of the lower lanes is beside a product, and their products are shorter."""
    lower, upper = (run.lanes for run in recorded_lane_runs(shown.trace.problem, "forward"))
    products = [lanes.product_share * lanes.plain_us for lanes in (lower, upper)]
    gains = products[1] / products[0], lower.product_share / upper.product_share
    return lower.hidden_share > 0.5 and upper.hidden_share == 0 and gains[0] > gains[1] > 1


def lse_is_right(shown):
    trace = shown.trace
    expected = trace.row_max[7] + np.log(trace.row_sum[7])
    return np.allclose(trace.lse.reshape(-1)[:4], expected, rtol=1e-5)


@pytest.mark.parametrize(("name", "number"), SCENES)
def test_what_a_scene_says_holds_in_its_run(name, number):
    assert CLAIMS[name, number](Shown(name, number))


def test_the_parts_of_a_bar_fill_it_and_a_bar_without_them_is_whole():
    parts = {"bytes": [("Q", 1), ("O", 0), ("P", 3)]}
    bar = bar_of("all 41\N{NO-BREAK SPACE}kB", "all {bytes}", parts)
    assert (bar["title"], bar["number"], bar["size"]) == ("all", "41.0\N{NO-BREAK SPACE}kB", 41e3)
    assert [(each["name"], each["from"], each["part"]) for each in bar["parts"]] == [
        ("Q", 0, 0.25),
        ("P", 0.25, 0.75),
    ]
    assert [(each["from"], each["part"]) for each in bar_of("no number", "no number", parts)["parts"]] == [
        (0, 1)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_talk_loads_from_recordings(name):
    talk = TALKS[name]
    runs = recorded_runs(talk)
    assert set(runs) == set(talk.runs)
    data = talk_data(talk, runs)
    assert len(data["scenes"]) == len(talk.scenes) >= {FIVE: 6, FLASH3: 8, BACKWARD: 8}[name]
    assert all(notes.strip() for notes in data["notes"])
    used = {scene["run"] for scene in data["scenes"] if not scene["chart"]}
    used |= {run for duel in data["duels"].values() for run in duel["runs"]}
    assert used == set(data["runs"])  # each is sent once


def test_a_scene_on_the_clock_of_the_gpu_ends_with_all_programs_or_with_those_of_the_first_kernel():
    """The clock of a recording differs from one recording to the next: its places are to be set anew."""
    on_clock = [scene for talk in TALKS.values() for scene in talk.scenes if scene.stops[0].step == "gpu:0"]
    assert on_clock
    for scene in on_clock:
        trace = recorded_run(scene.run.problem, scene.run.algorithm).trace
        drawn = drawn_of(trace, GPU)
        end = float(scene.stops[-1].step.removeprefix("gpu:"))
        times = [-1, *np.unique(drawn.start)]
        now = np.interp(end, range(len(times)), times)
        is_done = drawn.schedule.end[drawn.selection.last] <= now
        assert end == drawn.moments or (is_done == (trace.kernel[drawn.selection.first] == 0)).all()


@pytest.mark.parametrize(("name", "number"), SCENES)
def test_every_number_in_the_words_is_taken_from_the_run(name, number):
    scene = TALKS[name].scenes[number]
    words = [scene.title, scene.sentence, scene.notes, *(stop.sentence for stop in scene.stops)]
    bare = re.sub(r"\{\w+\}", "", NAMES_WITH_NUMBERS.sub("", " ".join(words)))
    assert not re.search(r"\d", bare), bare


@pytest.mark.parametrize(
    "words", ["{", "{}", "{0}", "{steps!r:x", "a } b", "{steps:d}", "{steps:,}", "{steps!r}", "{step}"]
)
def test_stray_braces_and_names_without_a_number_are_refused(words):
    with pytest.raises(UnknownFigure):
        filled(words, {"steps": "3"})


def test_a_brace_that_is_written_twice_is_a_brace_and_a_number_and_its_unit_stay_in_one_line():
    assert filled("{{x}} {time}", {"time": "2.45 ms"}) == "{x} 2.45\N{NO-BREAK SPACE}ms"


def test_the_time_of_a_run_is_that_of_its_kernel_and_the_public_call_has_a_name_of_its_own():
    scene = TALKS[FIVE].scenes[-1]
    figures = run_figures(recorded_runs(TALKS[FIVE])[scene.run][0], GPUS["H200"])
    measured = recorded_measurement(scene.run.problem)
    kernel, call = (measured.result(peer, "forward").timing for peer in ("flash2", "ours"))
    assert figures["ours_time"] == format_ms(kernel.median_ms)
    assert figures["flash_attention_time"] == format_ms(call.median_ms) != figures["ours_time"]


def test_the_share_of_the_mask_and_that_of_the_scores_are_the_whole_difference():
    shown = Shown(FIVE, 4)
    by_mask = sum(shown.moved(name) - shown.moved(name, shown.other) for name in ("K", "V"))
    scores = shown.moved("S") + shown.moved("P")
    assert shown.total - shown.other_total == by_mask + scores - shown.moved("lse", shown.other)
    assert shown.moved("K") == shown.moved("V")
