"""FlashAttention-3 and 4 in the last chapter: overlap and lanes, 8-bit inputs, late rescales, polynomials."""

import functools

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from kernels.measure.peers import PEERS
from kernels.problem import AttentionProblem
from kernels.recordings import recorded_document
from kernels.references import reference
from viz.learn.after import figures
from viz.learn.after import maths as lesson
from viz.learn.after.lanes import lanes_panel
from viz.learn.controls import TILE_SIZES, choice, number, slider
from viz.learn.predict import ask
from viz.learn.words import Words
from viz.shared.layout import colors, plot

HEAD_DIMS = (64, 128, 256)
INPUTS = ("normal", "growing_max", "large")
HOPPER_SHAPE = {"q_len": 16384, "head_dim": 128, "mask": "full", "dtype": "float16"}
HOPPER_PEERS = ("ours", "sdpa_flash", "sdpa_cudnn", "fa4")
GAINS = {0.5: "half as many", 1.0: "as many"}


def flash3(words: Words) -> None:
    """Why products and exponentials overlap; folded, 8-bit numbers, our kernel, and what else changed."""
    words.draw(
        "FlashAttention-3",
        clocks=functools.partial(_overlap, words),
        lanes=functools.partial(lanes_panel, words),
        eight_bits=functools.partial(_eight_bits, words),
        speeds=_speeds(words),
        source=reference("Shah et al. 2024").full,
    )


def flash4(words: Words) -> None:
    """Which unit sets the limit; folded, the late rescale, the polynomial, and what else changed."""
    words.draw(
        "FlashAttention-4",
        clocks=functools.partial(_units, words),
        late=functools.partial(_late_rescale, words),
        exp2=functools.partial(_exp2, words),
        source=reference("Zadouri et al. 2026").full,
    )


def _overlap(words: Words) -> None:
    """How long a tile takes if two units work at once."""
    words.draw("clocks")
    head_dim = choice("d, head_dim", HEAD_DIMS, 128, "after_overlap_head_dim", 110)
    figure, clocks = st.container(), lesson.tile_clocks(head_dim)
    products, exponentials, _ = map(int, clocks["H100"].values())
    times = {"products": products, "exponentials": exponentials, "in_turn": products + exponentials}
    options, right = [f"{count:,}" for count in sorted({*times.values()})], f"{max(products, exponentials):,}"
    key = f"after_overlap_clocks_{head_dim}"
    answered = ask(words, "overlap question", key, options, right, head_dim=head_dim, **times)
    _draw_clocks(words, clocks, head_dim, figure, answered)


def _units(words: Words) -> None:
    """What twice as fast tensor cores are worth, and then exponentials by polynomial."""
    words.draw("clocks")
    head_dim = choice("d, head_dim", HEAD_DIMS, 64, "after_units_head_dim", 110)
    figure, clocks = st.container(), lesson.tile_clocks(head_dim)
    hopper, blackwell = clocks["H100"], clocks["B200"]
    before, after = (int(max(each.values())) for each in (hopper, blackwell))
    right = GAINS.get(after / before, f"{after / before:.0%} as many")
    given = {"hopper": hopper, "blackwell": blackwell, "before": before, "after": after, "head_dim": head_dim}
    key = f"after_units_clocks_{head_dim}"
    answered = ask(words, "faster question", key, sorted({*GAINS.values(), right}), right, **given)
    if answered:
        label = "Exponentials by polynomial, per cent"
        percent = st.slider(label, 0, 100, 0, 5, key="after_units_share", bind="query-params", width=300)
        clocks = lesson.tile_clocks(head_dim, percent / 100)
    _draw_clocks(words, clocks, head_dim, figure, answered)


def _draw_clocks(
    words: Words, clocks: lesson.Clocks, head_dim: int, figure: DeltaGenerator, answered: bool
) -> None:
    """Clocks of the units of one SM for one tile on each GPU, and once predicted the overlapped ones."""
    with figure:
        plot(figures.clocks_figure(clocks, colors(), answered), key="after_clocks")
    if answered:
        limits = limit_words(clocks)
        words.draw("clocks model", limits=limits, head_dim=head_dim, per_clock=lesson.EXPONENTIALS_PER_CLOCK)


def limit_words(clocks: lesson.Clocks) -> str:
    """Which unit needs the most clocks on each GPU."""
    slowest = {
        gpu: " and ".join(unit for unit, count in each.items() if count == max(each.values()))
        for gpu, each in clocks.items()
    }
    return ", ".join(f"the {unit} on the {gpu}" for gpu, unit in slowest.items())


def _eight_bits(words: Words) -> None:
    """Errors of 8-bit inputs with outliers, by how they are scaled, without and with the rotation."""
    words.draw("8 bits")
    default = lesson.OutlierInputs()
    low, high = lesson.LENGTHS
    with st.container(horizontal=True, gap="small"):
        length = number("N, tokens", low, high, default.length, 32, "after_tokens", 130)
        d = choice("d, head_dim", lesson.ROTATED_HEAD_DIMS, default.head_dim, "after_head_dim", 110)
        share = 100 * default.outlier_share
        percent = number("Outliers, per cent", 0.0, 10.0, share, 0.1, "after_outliers", 150)
        size = number("Their deviation", 0.0, 1000.0, default.outlier_size, 1.0, "after_size", 140)
        block = choice("Rows per block", TILE_SIZES, 64, "after_block", 130)
        seed = number("Seed", 0, 9999, default.seed, 1, "after_seed", 110)
    inputs = lesson.OutlierInputs(length, d, percent / 100, size, seed)
    results = lesson.compare(inputs, block)
    row, before, after = lesson.loudest_row(inputs)
    shape = AttentionProblem(q_len=length, kv_len=length, head_dim=d)
    words.draw(
        "8 bits results",
        precision=figures.precision_figure(results, colors()),
        rotation=figures.rotation_figure(before, after, colors()),
        inputs=inputs,
        row=row,
        before=abs(before).max(),
        after=abs(after).max(),
        ratio=results[1].rmse / results[-1].rmse,
        link=[("This shape in float16 in the player", shape)],
    )


def _speeds(words: Words) -> str:
    """The recorded speed of our own kernel of this kind and of its peers; "" if there is none."""
    for measurement in recorded_document("sweeps").measurements:
        problem, results = measurement.problem, [measurement.result(peer, "forward") for peer in HOPPER_PEERS]
        if HOPPER_SHAPE.items() <= problem.as_dict().items() and all(results):
            speeds = [f"{PEERS[each.peer].label} {each.tflops(problem):.0f}" for each in results if each]
            return words("speeds", device=measurement.device, problem=problem, shown=", ".join(speeds))
    return ""


def _late_rescale(words: Words) -> None:
    words.draw("late")
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        inputs = choice("Inputs", INPUTS, "growing_max", "after_inputs", 150)
        threshold = slider("Threshold, powers of two", lesson.THRESHOLDS, 8, "after_threshold", width=260)
    problem = AttentionProblem(q_len=128, kv_len=2048, head_dim=64, inputs=inputs)
    results = {step: lesson.late_rescale(problem, step) for step in lesson.THRESHOLDS}
    words.draw(
        "late results",
        rescales=figures.late_rescale_figure([*results.values()], threshold, colors()),
        chosen=results[threshold],
        link=[("Watch the rescale factor alpha", problem)],
    )


def _exp2(words: Words) -> None:
    words.draw("exp2")
    degree = st.slider("Degree", 1, 6, 3, key="after_degree", bind="query-params")
    x, error = lesson.exp2_errors(degree)
    figure = figures.exp2_figure(x, error, degree, colors())
    words.draw("exp2 results", errors=figure, largest=abs(error).max(), rounding=lesson.ROUNDING["bfloat16"])
