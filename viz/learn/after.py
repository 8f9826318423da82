"""Chapter 7: split keys, FlashAttention-3 and 4, each with a piece computed from the reader's numbers."""

from __future__ import annotations

import streamlit as st

from kernels.device.gpus import DEFAULT_GPU, GPUS, Gpu
from kernels.lessons import late_rescale, low_precision, units
from kernels.lessons import split_kv as splitting
from kernels.measure.measurement import Measurement
from kernels.measure.peers import PEERS
from kernels.problem import BLOCKS, INPUTS, AttentionProblem, tiles
from kernels.recordings import recorded_document
from viz.learn.figures import after as figures
from viz.learn.figures.matrices import Matrix, matrices_html
from viz.learn.formulas import formulas
from viz.shared import theme
from viz.shared.layout import colors, explore_link, plot
from viz.shared.problem_form import INPUT_WORDS

TOPICS = ("Split the keys", "FlashAttention-3", "FlashAttention-4")
BIND = {"bind": "query-params"}
HEADS = (1, 2, 4, 8, 16, 32)
TILES = tuple(block for block in BLOCKS if block >= 16)
SHOWN_PARTS = 6
PROGRAMS_AN_SM = "one program" if tiles.PROGRAMS_PER_SM == 1 else f"{tiles.PROGRAMS_PER_SM} programs"
HOPPER_SHAPE = (16384, 128, "full", "float16")
HOPPER_PEERS = ("ours", "sdpa_flash", "sdpa_cudnn")
INPUT_HELP = "\n".join(f"- **{name}**: {words}" for name, words in INPUT_WORDS.items())


def show() -> None:
    palette = colors()
    parts = st.tabs(TOPICS, key="after_topic", bind="query-params")
    for part, draw in zip(parts, (_split, _flash3, _flash4), strict=True):
        if part.open:
            with part:
                draw(palette)


def _cards(cards: dict[str, str]) -> None:
    for place, (title, words) in zip(st.columns(len(cards)), cards.items(), strict=True):
        with place.container(border=True, height="stretch"):
            st.markdown(f"**{title}**  \n{words}")


# --- split-KV --------------------------------------------------------------------------------------------------------


def _split(palette: theme.Palette) -> None:
    st.markdown(
        "When a model writes text, one query faces a long cache of keys, and one program a head leaves most of the GPU idle. **Split the keys**: "
        "each part gives m, l and o of its own, and one number a row, lse, merges them exactly (Dao et al. 2023, Flash-Decoding)."
    )
    problem, gpu, splits = _decoding()
    rule = splitting.occupancy(problem, gpu.sm_count)
    plan = splitting.occupancy(problem, gpu.sm_count, splits)
    _sm_squares(problem, plan, gpu, palette)
    curve, cost = st.columns([3, 2], gap="large", vertical_alignment="center")
    with curve:
        plot(
            figures.split_steps_figure(splitting.occupancy_curve(problem, gpu.sm_count), plan, rule, palette),
            key="after_steps",
        )
    with cost:
        unsplit = splitting.row_programs(problem)
        wanted = tiles.splits_to_fill(unsplit, problem.kv_tiles, gpu.sm_count)
        extra, cache = splitting.partial_bytes(problem, plan.splits), splitting.cache_bytes(problem)
        st.markdown(
            f"- The kernel's rule: {PROGRAMS_AN_SM} an SM at once, {tiles.PROGRAMS_PER_SM} × {gpu.sm_count} ÷ {unsplit}, but never more parts than "
            f"the {problem.kv_tiles} key tiles: {wanted}; in equal numbers of whole tiles **{rule.splits} parts**.\n"
            f"- Shown: **{plan.tile_steps}** tile steps instead of {splitting.occupancy(problem, gpu.sm_count, 1).tile_steps} with one part, "
            f"in {plan.waves} {'wave' if plan.waves == 1 else 'waves'}.\n"
            f"- Price: partial results of {theme.format_bytes(extra)} written and read, beside {theme.format_bytes(cache)} of keys and values.\n\n"
            "All modelled: every key tile takes the same time."
        )
    _merge(problem, plan, palette)
    _masked(problem)


def _sm_squares(
    problem: AttentionProblem, plan: splitting.Occupancy, gpu: Gpu, palette: theme.Palette
) -> None:
    """The SMs with work: without splitting on the left, with it on the right."""
    before, after = st.columns(2, gap="large")
    with before:
        programs = splitting.unsplit_programs(problem)
        name = "FlashAttention-2" if len(set(programs.values())) > 1 else "FlashAttention-1 and 2"
        st.markdown(f"**{name}**")
        count = programs["FlashAttention-2"]
        plot(figures.sm_figure(splitting.dealt(count, gpu.sm_count), count, palette), key="after_sms_before")
    with after:
        st.markdown(
            f"**Split-KV**, {plan.splits} {'part' if plan.splits == 1 else 'parts'} of {plan.tiles_per_split} key tiles"
        )
        plot(
            figures.sm_figure(splitting.dealt(plan.programs, gpu.sm_count), plan.programs, palette),
            key="after_sms_after",
        )
    programs_words = ", ".join(f"{name} {count:,}" for name, count in programs.items())
    st.caption(
        f"Modelled on {gpu.name}, {gpu.sm_count} SMs, {PROGRAMS_AN_SM} each at once. Number in a square: its "
        f"programs. {programs_words} (heads, then heads × query tiles), split-KV {plan.programs:,} (key heads × parts: heads that share keys share a "
        "program)."
    )


def _decoding() -> tuple[AttentionProblem, Gpu, int]:
    with st.container(horizontal=True, gap="small"):
        kv_len = st.number_input("Keys", 64, 16384, 8192, 64, key="after_keys", width=140, **BIND)
        q_len = st.number_input("Queries", 1, 1024, 1, 1, key="after_queries", width=120, **BIND)
        kv_heads = st.selectbox("Key heads", HEADS, HEADS.index(8), key="after_kv_heads", width=110, **BIND)
        group = st.selectbox(
            "Query heads to each", HEADS[:4], HEADS.index(4), key="after_group", width=150, **BIND
        )
        block_n = st.selectbox(
            "Keys in a tile", TILES, TILES.index(64), key="after_block_n", width=120, **BIND
        )
        gpu = st.selectbox(
            "GPU", list(GPUS), list(GPUS).index(DEFAULT_GPU), key="after_gpu", width=110, **BIND
        )
        splits = st.number_input("Parts, 0: the rule", 0, 1024, 0, 1, key="after_splits", width=150, **BIND)
    problem = AttentionProblem(
        q_heads=kv_heads * group,
        kv_heads=kv_heads,
        q_len=q_len,
        kv_len=kv_len,
        head_dim=64,
        block_m=16,
        block_n=block_n,
        kv_splits=splits,
    )
    return problem, GPUS[gpu], splits


def _merge(problem: AttentionProblem, plan: splitting.Occupancy, palette: theme.Palette) -> None:
    st.subheader("Merging is exact", anchor=False)
    inputs = st.selectbox("Inputs", INPUTS, 0, key="after_row_inputs", width=160, help=INPUT_HELP, **BIND)
    problem = problem.with_(inputs=inputs)
    row = splitting.split_row(problem, plan.splits)
    shown = min(len(row.weights), SHOWN_PARTS)
    chart, words = st.columns([3, 2], gap="large", vertical_alignment="center")
    with chart:
        plot(figures.parts_figure(row, palette), key="after_parts")
    with words:
        formulas(
            r"\mathrm{lse} = \ln\sum_s e^{\mathrm{lse}_s}",
            r"O = \sum_s e^{\mathrm{lse}_s - \mathrm{lse}}\,O_s",
        )
        st.markdown(
            f"lse = {row.lse:.4f}; weights add up to {row.weights.sum():.12g}. Largest difference of the merged row from the whole one: "
            f":green-badge[{theme.format_error(row.error)}] (float64 rounding). The plain mean of the parts is off by "
            f":red-badge[{theme.format_error(row.mean_error)}]."
            if row.error < 1e-12
            else f"Largest difference of the merged row from the whole one: :red-badge[{theme.format_error(row.error)}]."
        )
    columns = {"m": row.row_max, "l": row.row_sum, "lse": row.lse_of_part, "weight": row.weights}
    parts = [Matrix(name, values[:shown], "state") for name, values in columns.items()]
    parts.append(Matrix("o, first 6 of 64 features", row.outputs[:shown, :6], "output"))
    st.html(matrices_html(parts, palette))
    single = splitting.one_row(problem).with_(kv_splits=plan.splits)
    which = f"The first {shown} of {len(row.weights)} parts. " if shown < len(row.weights) else ""
    st.caption(
        f"{which}Computed now in float64 from the numbers that the kernel takes for one query of one head, seed 0."
    )
    with st.container(horizontal=True):
        explore_link("This row in the kernel, with these parts", single, algorithm="split_kv")
        explore_link(
            "All heads, with these parts", problem.with_(kv_splits=plan.splits), algorithm="split_kv"
        )


def _masked(problem: AttentionProblem) -> None:
    """Tiles that a causal mask spares where there are fewer queries than keys."""
    chunk = AttentionProblem(
        q_len=min(256, problem.kv_len),
        kv_len=problem.kv_len,
        mask="causal",
        block_m=64,
        block_n=problem.block_n,
    )
    counts = tiles.count_tiles(chunk)
    st.subheader("Fewer queries than keys, and a mask", anchor=False)
    st.markdown(
        f"The next {chunk.q_len} tokens of a prompt against {chunk.kv_len:,} keys, causal: the diagonal ends at the last key. Of "
        f"{chunk.q_tiles * chunk.kv_tiles:,} tiles, {counts.skipped:,} are never visited, and only {counts.partial:,} need the mask (counted by "
        "the rule that the kernels run)."
    )
    explore_link("See the tiles", chunk)


# --- FlashAttention-3 ------------------------------------------------------------------------------------------------


def _flash3(palette: theme.Palette) -> None:
    _cards(
        {
            "Asynchrony": "Some warps only load, others only compute; the softmax of one tile runs while the tensor cores multiply another.",
            "8-bit numbers": "One scale for each block of rows, and outliers spread over all features by a random rotation.",
            "Reported on the H100": "1.5 to 2.0 × FlashAttention-2; up to 740 TFLOP/s in float16, close to 1.2 PFLOP/s in FP8.",
        }
    )
    st.caption(
        "For Hopper. Shah et al. 2024, FlashAttention-3: Fast and Accurate Attention with Asynchrony and Low-precision, arXiv 2407.08608."
    )
    st.subheader("Why overlap", anchor=False)
    _clocks(palette, "after_overlap", polynomial=False)
    _built_here()
    st.subheader("8 bits and outliers", anchor=False)
    inputs, block = _outliers()
    results = low_precision.compare(inputs, block)
    row, before, after = low_precision.loudest_row(inputs)
    left, right = st.columns(2, gap="large")
    with left:
        plot(figures.precision_figure(results, palette), key="after_precision")
    with right:
        plot(figures.rotation_figure(before, after, palette), key="after_rotation")
    tensor, both = results[1].rmse, results[-1].rmse
    formulas(
        r"(Q M)(K M)^{\mathsf T}",
        r"= Q\,M M^{\mathsf T} K^{\mathsf T} = Q K^{\mathsf T},",
        r"M = \mathrm{diag}(\pm 1)\,H / \sqrt d",
    )
    st.markdown(
        f"A rotation M changes no score, but it spreads an outlier over all {inputs.head_dim} features: the largest entry of row {row} goes from "
        f"{abs(before).max():.1f} to {abs(after).max():.1f}. Here scale by block and rotation together give **{theme.format_ratio(tensor / both)}** "
        "less error than one scale a tensor (computed now). The paper reports 2.6 × for its kernel, against a baseline FP8 attention."
    )
    st.caption(
        f"Emulated in NumPy: inputs and P rounded to e4m3 (3 bits of mantissa, largest number 448), sums exact; {inputs.heads} heads, "
        "error over all of them. The default inputs are the paper's (section 4.3): 0.1 % of the entries get a number of deviation 10 on top."
    )
    length = inputs.length
    explore_link(
        "This shape in float16 in the player",
        AttentionProblem(q_len=length, kv_len=length, head_dim=inputs.head_dim),
    )


def _built_here() -> None:
    """Our own kernel of this kind, with the recorded speeds of it and its peers."""
    words = (
        "**Built here**: `kernels/algorithms/flash3/forward_hopper.py`, which `flash_attention` runs on Hopper GPUs where it is the faster. One warp loads, two or "
        "three groups of four warps compute 64 rows each, and a group issues the scores of a key tile together with $PV$ of the tile before it. It "
        "visits the same tiles in the same order, and asks for the same bytes, as the kernel in the player with tiles of that size."
    )
    if measurement := _recorded_on_hopper():
        problem = measurement.problem
        speeds = {
            result.peer: result.tflops(problem)
            for result in measurement.results
            if result.direction == "forward"
        }
        shown = [f"{PEERS[peer].label} {speeds[peer]:.0f}" for peer in HOPPER_PEERS if speeds.get(peer)]
        words += (
            f" Recorded on {measurement.device.name} with {problem.q_len:,} keys, head_dim {problem.head_dim}, {problem.dtype}, in TFLOP/s: "
            f"{', '.join(shown)}."
        )
    st.markdown(words)


def _recorded_on_hopper() -> Measurement | None:
    """The recorded measurement of HOPPER_SHAPE with all of HOPPER_PEERS, or None."""
    for measurement in recorded_document("sweeps").measurements:
        problem = measurement.problem
        if (problem.q_len, problem.head_dim, problem.mask, problem.dtype) == HOPPER_SHAPE and all(
            measurement.result(peer, "forward") for peer in HOPPER_PEERS
        ):
            return measurement
    return None


def _outliers() -> tuple[low_precision.OutlierInputs, int]:
    default = low_precision.OutlierInputs()
    with st.container(horizontal=True, gap="small"):
        length = st.number_input(
            "Tokens", *low_precision.LENGTHS, default.length, 32, key="after_tokens", width=130, **BIND
        )
        dims = low_precision.HEAD_DIMS
        head_dim = st.selectbox(
            "head_dim", dims, dims.index(default.head_dim), key="after_head_dim", width=110, **BIND
        )
        share = st.number_input(
            "Outliers, per cent",
            0.0,
            10.0,
            100 * default.outlier_share,
            0.1,
            key="after_outliers",
            width=150,
            **BIND,
        )
        size = st.number_input(
            "Their deviation", 0.0, 1000.0, default.outlier_size, 1.0, key="after_size", width=140, **BIND
        )
        block = st.selectbox("Rows in a block", TILES, TILES.index(64), key="after_block", width=130, **BIND)
        seed = st.number_input("Seed", 0, 9999, default.seed, 1, key="after_seed", width=110, **BIND)
    return low_precision.OutlierInputs(length, head_dim, share / 100, size, seed), block


def _clocks(palette: theme.Palette, prefix: str, polynomial: bool) -> None:
    """Clocks of the units of one SM for one tile, on each generation of GPU."""
    with st.container(horizontal=True, gap="small"):
        head_dim = st.selectbox(
            "head_dim", (64, 128, 256), 0 if polynomial else 1, key=f"{prefix}_head_dim", width=110, **BIND
        )
        share = 0
        if polynomial:
            share = st.slider(
                "Exponentials by polynomial, per cent", 0, 100, 0, 5, key=f"{prefix}_share", width=300, **BIND
            )
    gpus = {"A100": GPUS["A100"], "H100": GPUS["H100"], "B200": GPUS["B200"]}
    clocks = {key: units.tile_clocks(key, gpu, 128, 128, head_dim, share / 100) for key, gpu in gpus.items()}
    plot(figures.clocks_figure(clocks, palette), key=f"{prefix}_clocks")
    st.caption(
        f"Modelled for a tile of 128 × 128 scores: 4 · 128² · {head_dim} FLOP over those of the tensor cores in a clock, and 128² exponentials at "
        f"{units.EXPONENTIALS_PER_CLOCK} a clock and SM (CUDA C++ Programming Guide). Loads, mask, max and sum are left out."
        + (" A polynomial counts its 3 multiply-adds." if polynomial else "")
    )


# --- FlashAttention-4 ------------------------------------------------------------------------------------------------


def _flash4(palette: theme.Palette) -> None:
    _cards(
        {
            "The tensor cores are twice as fast": "But not the exponentials and not the shared memory: those set the pace now.",
            "Fewer operations beside the products": "Some exponentials by a polynomial on other units; a rescale only when it matters.",
            "Backward": "Tensor memory and pairs of thread blocks take traffic off the shared memory, and save atomic adds.",
            "Reported on the B200": "Up to 1605 TFLOP/s in bfloat16: 1.3 × cuDNN 9.13, 2.7 × Triton.",
        }
    )
    st.caption(
        "For Blackwell. Zadouri et al. 2026, FlashAttention-4: Algorithm and Kernel Pipelining Co-Design for Asymmetric Hardware Scaling, "
        "arXiv 2603.05451."
    )
    st.subheader("The exponentials hold it up", anchor=False)
    _clocks(palette, "after_units", polynomial=True)
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Rescale late", anchor=False)
        _late_rescale(palette)
    with right:
        st.subheader("2ˣ without the exponential unit", anchor=False)
        degree = st.slider("Degree", 1, 6, 3, key="after_degree", bind="query-params")
        x, error = late_rescale.exp2_errors(degree)
        plot(figures.exp2_figure(x, error, degree, palette), key="after_exp2")
        st.markdown(
            f"Largest relative error :violet-badge[{theme.format_error(abs(error).max())}]. P is rounded to 16 bits right afterwards, by up to "
            f"{theme.format_error(late_rescale.ROUNDING['bfloat16'])} in bfloat16. The whole part of x only moves the exponent."
        )


def _late_rescale(palette: theme.Palette) -> None:
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        inputs = st.selectbox(
            "Inputs", ("normal", "growing_max", "large"), 1, key="after_inputs", width=150, **BIND
        )
        threshold = st.select_slider(
            "Threshold, powers of two", late_rescale.THRESHOLDS, 8, key="after_threshold", width=260, **BIND
        )
    problem = AttentionProblem(q_len=128, kv_len=2048, head_dim=64, inputs=inputs)
    results = [late_rescale.late_rescale(problem, step) for step in late_rescale.THRESHOLDS]
    plot(figures.late_rescale_figure(results, threshold, palette), key="after_rescales")
    chosen = results[late_rescale.THRESHOLDS.index(threshold)]
    st.markdown(
        f"{chosen.rescales:,} rescales of {chosen.row_steps:,}; weights grow up to {theme.significant(chosen.largest_weight)} instead of 1, and the "
        f"output is off by :green-badge[{theme.format_error(chosen.largest_error)}] (float64): any kept max divides out at the end. "
        "FlashAttention-4 takes 2⁸ for 16-bit inputs."
    )
    explore_link("Watch the rescale factor alpha", problem)
