"""Chapter "What came after": split keys, FlashAttention-3 and 4, each computed on the reader's numbers."""

import functools

import streamlit as st

from kernels.device.gpus import GPUS, Gpu
from kernels.problem import INPUTS, AttentionProblem, tiles
from viz.learn.after import maths as splitting
from viz.learn.after.figures import parts_figure, sm_figure, split_steps_figure
from viz.learn.after.newer import flash3, flash4
from viz.learn.controls import TILE_SIZES, choice, gpu_choice, number
from viz.learn.matrices import Matrix, matrices_html
from viz.learn.predict import ask
from viz.learn.stepper import parts
from viz.learn.words import Words
from viz.shared.formats import format_count
from viz.shared.layout import colors, plot
from viz.shared.problem_form import INPUT_WORDS

WORDS = Words(__file__)
HEADS = (1, 2, 4, 8, 16, 32)
GROUPS = HEADS[:4]
SHOWN_PARTS = 6
ROUNDING = 1e-12
"""A difference below this is only rounding in float64."""
INPUT_HELP = "\n".join(f"- **{name}**: {words}" for name, words in INPUT_WORDS.items())


def show() -> None:
    """Draw the chapter."""
    newer = {"FlashAttention-3": functools.partial(flash3, WORDS)}
    newer["FlashAttention-4"] = functools.partial(flash4, WORDS)
    parts("after_topic", {"Split the keys": _split_keys, **newer})


def _split_keys() -> None:
    """Programs on the GPU without and with splitting, and the merge on one row."""
    WORDS.draw("Split the keys")
    problem, gpu = _decoding()
    curve = splitting.occupancy_curve(problem, gpu.sm_count)
    plan = splitting.occupancy(problem, gpu.sm_count, problem.kv_splits)
    rule, alone = splitting.occupancy(problem, gpu.sm_count), curve[0]
    unsplit = problem.heads * problem.q_tiles
    split_words = f"{format_count(plan.splits, 'part')} of {format_count(plan.tiles_per_split, 'key tile')}"
    queries = min(256, problem.kv_len // 2)
    chunk = AttentionProblem(
        q_len=queries, kv_len=problem.kv_len, mask="causal", block_m=64, block_n=problem.block_n
    )
    WORDS.draw(
        "split",
        problem=problem,
        gpu=gpu,
        plan=plan,
        per_sm=tiles.PROGRAMS_PER_SM,
        before=functools.partial(_squares, "**FlashAttention-2**", unsplit, gpu),
        after=functools.partial(_squares, f"**Split-KV**, {split_words}", plan.programs, gpu),
        unsplit=unsplit,
        row_tiles=alone.programs // problem.kv_heads,
        merge=functools.partial(_merge, problem, plan),
        steps=split_steps_figure(curve, plan, rule, colors()),
        alone=alone,
        rule=rule,
        wanted=tiles.splits_to_fill(alone.programs, problem.kv_tiles, gpu.sm_count),
        partial=splitting.partial_bytes(problem, plan.splits),
        cache=splitting.cache_bytes(problem),
        chunk=chunk,
        tiles=tiles.count_tiles(chunk),
        see_tiles=[("See the tiles", chunk)],
    )


def _decoding() -> tuple[AttentionProblem, Gpu]:
    """The decoding problem, with its number of parts (0: the kernel's rule), and the GPU."""
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
        q_heads=kv_heads * group, kv_heads=kv_heads, q_len=q_len, kv_len=kv_len, kv_splits=splits
    )
    return problem.with_(head_dim=64, block_m=16, block_n=block_n), gpu


def _squares(title: str, programs: int, gpu: Gpu) -> None:
    st.markdown(title)
    plot(sm_figure(splitting.dealt(programs, gpu.sm_count), programs, colors()), key=f"after {title}")


def _merge(problem: AttentionProblem, plan: splitting.Occupancy) -> None:
    """How two halves of a row become one output; once answered, a row in parts, merged, against the whole."""
    weighted = "their sum, each times e^(lse of its part − lse)"
    options = ("the mean of the two", "the one with the larger l", weighted)
    if not ask(WORDS, "merge question", "after_merge", options, weighted):
        return
    st.subheader("Merging is exact", anchor=False)
    inputs = choice("Inputs", INPUTS, INPUTS[0], "after_row_inputs", 160, INPUT_HELP)
    problem = problem.with_(inputs=inputs, kv_splits=plan.splits)
    one_row = problem.with_(batch=1, q_heads=1, kv_heads=1, q_len=1)
    row = splitting.split_row(one_row, plan.splits)
    shown = min(len(row.weights), SHOWN_PARTS)
    columns = {"m": row.row_max, "l": row.row_sum, "lse": row.lse_of_part, "weight": row.weights}
    matrices = [Matrix(name, values[:shown], "state") for name, values in columns.items()]
    matrices.append(Matrix("o, first 6 of 64 features", row.outputs[:shown, :6], "output"))
    color, mean_color = ("green" if error < ROUNDING else "red" for error in (row.error, row.mean_error))
    WORDS.draw(
        "merge",
        weights=parts_figure(row, colors()),
        row=row,
        sum=row.weights.sum(),
        color=color,
        mean_color=mean_color,
        parts=matrices_html(matrices, colors()),
        shown=shown,
        count=len(row.weights),
        links=[
            ("This row in the kernel, with these parts", one_row, "split_kv"),
            ("All heads, with these parts", problem, "split_kv"),
        ],
    )
