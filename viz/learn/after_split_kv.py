"""Split keys in the last chapter: how they fill the GPU, and why merging the parts is exact."""

from __future__ import annotations

import streamlit as st

from kernels.device.gpus import GPUS, Gpu
from kernels.lessons import split_kv as splitting
from kernels.problem import INPUTS, AttentionProblem, tiles
from viz.learn.controls import TILE_SIZES, choice, gpu_choice, number
from viz.learn.figures.after import parts_figure, sm_figure, split_steps_figure
from viz.learn.figures.matrices import Matrix, matrices_html
from viz.learn.formulas import formulas
from viz.learn.predict import choose
from viz.shared import theme
from viz.shared.formats import format_bytes, format_count, format_error
from viz.shared.glossary import say
from viz.shared.layout import explore_link, plot
from viz.shared.problem_form import INPUT_WORDS

HEADS = (1, 2, 4, 8, 16, 32)
GROUPS = HEADS[:4]
"""Query heads that share a key head."""
SHOWN_PARTS = 6
PROGRAMS = "one program" if tiles.PROGRAMS_PER_SM == 1 else f"{tiles.PROGRAMS_PER_SM} programs"
INPUT_HELP = "\n".join(f"- **{name}**: {words}" for name, words in INPUT_WORDS.items())


def split_kv_panel(palette: theme.Palette) -> None:
    """Programs on the GPU without and with splitting, and the merge on one row."""
    say(
        "When a model writes text, which is called **decoding**, it has one new [[query]] at a time, and a "
        "long row of [[key|keys]] and [[value|values]] kept from before. In FlashAttention-2 a [[program]] "
        "works on one query tile of one [[head]]. With one query there is one tile per head: often fewer "
        "programs than [[SM|SMs]], and the other SMs have nothing to do."
    )
    problem, gpu, splits = _decoding()
    say(heads_words(problem))
    rule = splitting.occupancy(problem, gpu.sm_count)
    plan = splitting.occupancy(problem, gpu.sm_count, splits)
    _sm_squares(problem, plan, gpu, palette)
    say(
        "**Split the keys**: several programs take a part of the keys each, with their own [[row max|m]], "
        f"[[row sum|l]] and [[output|O]]. {programs_words(problem, plan)} Each part hands on its O and one "
        "number per row, [[lse]]. A second kernel merges the parts from these alone (Flash-Decoding, Dao et "
        "al. 2023)."
    )
    if _predict_merge():
        _merge(problem, plan, palette)
    with st.expander("How many parts: the kernel's rule, and what splitting costs"):
        curve, cost = st.columns([3, 2], gap="large", vertical_alignment="center")
        with curve:
            plans = splitting.occupancy_curve(problem, gpu.sm_count)
            plot(split_steps_figure(plans, plan, rule, palette), key="after_steps")
        cost.markdown(_cost_words(problem, gpu, plan, rule))
    with st.expander("Fewer queries than keys, and a causal mask"):
        _masked(problem)


def heads_words(problem: AttentionProblem) -> str:
    """Which heads share keys and values, and how many programs FlashAttention-2 has for them."""
    heads, key_heads = problem.q_heads, problem.kv_heads
    if heads == key_heads:
        shared = f"This model has {format_count(heads, 'head')}, each with keys and values of its own."
    else:
        shared = (
            f"This model has {heads} query heads. Every {heads // key_heads} of them share one K and V, a "
            f"[[key head]]: {format_count(key_heads, 'key head')} in all. This is [[grouped-query "
            "attention]], which has fewer keys and values to keep and to load."
        )
    programs = format_count(splitting.unsplit_programs(problem)["FlashAttention-2"], "program")
    tiles_each = format_count(problem.q_tiles, "query tile")
    return f"{shared} FlashAttention-2 has {format_count(heads, 'head')} × {tiles_each} = {programs}."


def programs_words(problem: AttentionProblem, plan: splitting.Occupancy) -> str:
    """How the programs of split-KV come about."""
    heads = problem.kv_heads
    row_tiles = splitting.row_programs(problem) // heads
    tiled = f"{row_tiles:,} tiles of their queries × " if row_tiles > 1 else ""
    together = (
        ""
        if problem.q_heads == heads
        else "The query heads of a key head read the same keys, so a program works on all of them at once. "
    )
    return (
        f"{together}That makes {format_count(heads, 'key head')} × "
        f"{tiled}{format_count(plan.splits, 'part')} = {format_count(plan.programs, 'program')}."
    )


def _decoding() -> tuple[AttentionProblem, Gpu, int]:
    """The decoding problem, the GPU, and the number of parts (0: the kernel's rule)."""
    with st.container(horizontal=True, gap="small"):
        kv_len = number("M, keys", 64, 16384, 8192, 64, "after_keys", 140)
        splits = number("Parts (0: the kernel chooses)", 0, 1024, 0, 1, "after_splits", 220)
        gpu = GPUS[gpu_choice("after_gpu", 110)]
    with st.expander("Other numbers of queries and heads, other tiles"), st.container(horizontal=True):
        q_len = number("N, queries", 1, 1024, 1, 1, "after_queries", 120)
        kv_heads = choice("Key heads", HEADS, 8, "after_kv_heads", 110)
        group = choice("Query heads to each", GROUPS, 4, "after_group", 150)
        block_n = choice("BLOCK_N", TILE_SIZES, 64, "after_block_n", 120)
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
    return problem, gpu, splits


def _sm_squares(
    problem: AttentionProblem, plan: splitting.Occupancy, gpu: Gpu, palette: theme.Palette
) -> None:
    """The SMs with work: without splitting on the left, with it on the right."""
    before, after = st.columns(2, gap="large")
    programs = splitting.unsplit_programs(problem)
    with before:
        name = "FlashAttention-2" if len(set(programs.values())) > 1 else "FlashAttention-1 and 2"
        st.markdown(f"**{name}**")
        count = programs["FlashAttention-2"]
        plot(sm_figure(splitting.dealt(count, gpu.sm_count), count, palette), key="after_sms_before")
    with after:
        tiles_each = format_count(plan.tiles_per_split, "key tile")
        st.markdown(f"**Split-KV**, {format_count(plan.splits, 'part')} of {tiles_each}")
        dealt = splitting.dealt(plan.programs, gpu.sm_count)
        plot(sm_figure(dealt, plan.programs, palette), key="after_sms_after")
    one, two = programs.values()
    tiled = splitting.row_programs(problem) > problem.kv_heads
    each = "each key head, tile of its queries and part" if tiled else "each key head and part"
    st.caption(
        f"Modelled on {gpu.name}: {gpu.sm_count} SMs, {PROGRAMS} each at once. A square is an SM, and its "
        f"number the programs on it. FlashAttention-1 has one program for each head ({one:,}), "
        f"FlashAttention-2 one for each head and query tile ({two:,}), split-KV one for {each} "
        f"({plan.programs:,}): there, query heads with the same keys share a program."
    )


def _cost_words(
    problem: AttentionProblem, gpu: Gpu, plan: splitting.Occupancy, rule: splitting.Occupancy
) -> str:
    unsplit = splitting.row_programs(problem)
    wanted = tiles.splits_to_fill(unsplit, problem.kv_tiles, gpu.sm_count)
    alone = splitting.occupancy(problem, gpu.sm_count, 1)
    extra, cache = splitting.partial_bytes(problem, plan.splits), splitting.cache_bytes(problem)
    return (
        f"- The kernel's rule: as many parts as can run at once, with {PROGRAMS} per SM. Query heads with "
        f"the same keys share a program: without splitting, {format_count(unsplit, 'program')}. Wanted are "
        f"{tiles.PROGRAMS_PER_SM} × {gpu.sm_count} ÷ {unsplit:,} parts, rounded down; at least one, and at "
        f"most one per key tile ({problem.kv_tiles}): {wanted}. Each part has "
        f"{format_count(rule.tiles_per_split, 'whole tile')}, but the last may have fewer, which gives "
        f"**{format_count(rule.splits, 'part')}**.\n"
        f"- Shown: **{plan.tile_steps}** tile steps one after the other, instead of {alone.tile_steps} with "
        f"one part, in {format_count(plan.waves, 'wave')} "
        "(a wave is what all SMs run at once).\n"
        f"- Price: writing and reading partial results moves {format_bytes(extra)} in all, besides "
        f"{format_bytes(cache)} of keys and values.\n\n"
        "All modelled: every key tile takes the same time."
    )


def _predict_merge() -> bool:
    """How two halves of a row become one output; whether the reader has answered."""
    weighted = "their sum, each times e^(lse of its part − lse)"
    return choose(
        "after_merge",
        "Two programs had the two halves of the keys of one row. Each divided by its own [[row sum|l]]. How "
        "is the output of the whole row put together from theirs?",
        ("the mean of the two", "the one with the larger l", weighted),
        weighted,
        "A half with larger scores must count more: e^(lse of its part) is the sum of its exponentials, so "
        "the factors are the parts' shares of the whole sum.",
    )


def _merge(problem: AttentionProblem, plan: splitting.Occupancy, palette: theme.Palette) -> None:
    """One row in parts, merged, against the same row computed whole."""
    st.subheader("Merging is exact", anchor=False)
    problem = problem.with_(inputs=choice("Inputs", INPUTS, INPUTS[0], "after_row_inputs", 160, INPUT_HELP))
    row = splitting.split_row(problem, plan.splits)
    chart, words = st.columns([3, 2], gap="large", vertical_alignment="center")
    with chart:
        plot(parts_figure(row, palette), key="after_parts")
    with words:
        st.markdown(_merge_words(row))
    shown = min(len(row.weights), SHOWN_PARTS)
    columns = {"m": row.row_max, "l": row.row_sum, "lse": row.lse_of_part, "weight": row.weights}
    parts = [Matrix(name, values[:shown], "state") for name, values in columns.items()]
    parts.append(Matrix("o, first 6 of 64 features", row.outputs[:shown, :6], "output"))
    st.html(matrices_html(parts, palette))
    formulas(
        r"\mathrm{lse} = \ln\sum_s e^{\mathrm{lse}_s}",
        r"O = \sum_s e^{\mathrm{lse}_s - \mathrm{lse}}\,O_s",
    )
    which = f"The first {shown} of {len(row.weights)} parts. " if shown < len(row.weights) else ""
    st.caption(
        f"{which}**Measured** in float64 on the numbers that the kernel gets for one query of one head, "
        "seed 0."
    )
    with st.container(horizontal=True):
        all_heads = problem.with_(kv_splits=plan.splits)
        one_row = splitting.one_row(problem).with_(kv_splits=plan.splits)
        explore_link("This row in the kernel, with these parts", one_row, algorithm="split_kv")
        explore_link("All heads, with these parts", all_heads, algorithm="split_kv")


def _merge_words(row: splitting.SplitRow) -> str:
    difference = "Largest difference of the merged row from the row computed whole: "
    if row.error >= 1e-12:
        return f"{difference}:red-badge[{format_error(row.error)}]."
    mean = (
        "With one part there is nothing to merge."
        if len(row.weights) == 1
        else f"The plain mean of the parts is off by :red-badge[{format_error(row.mean_error)}]."
    )
    return (
        f"lse = {row.lse:.4f}; the weights add up to {row.weights.sum():.12g}. {difference}"
        f":green-badge[{format_error(row.error)}] (float64 rounding). {mean}"
    )


def _masked(problem: AttentionProblem) -> None:
    """Tiles that a causal mask skips if there are fewer queries than keys."""
    chunk = AttentionProblem(
        q_len=min(256, problem.kv_len // 2),
        kv_len=problem.kv_len,
        mask="causal",
        block_m=64,
        block_n=problem.block_n,
    )
    counts = tiles.count_tiles(chunk)
    st.markdown(
        f"A long prompt is read {chunk.q_len} tokens at a time. Its next {chunk.q_len} tokens see "
        f"{chunk.kv_len:,} keys, but none that comes after them (a causal mask): the last token sees the "
        f"last key. Of {chunk.q_tiles * chunk.kv_tiles:,} tiles, {counts.skipped:,} are not "
        f"visited, and {counts.partial:,} need the mask (counted by the rule that the kernels run)."
    )
    explore_link("See the tiles", chunk)
