"""How the player shows each kernel of each algorithm. What a kernel loads and stores it says itself, in the names of its phases."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelView:
    """One kernel: where its source is, which tile stays while others stream past it, and what of it is drawn."""

    source: tuple
    """Arguments of `kernel_source`."""
    stays: str = "q_tile"
    """The tile that a turn of the outer loop is about: "q_tile" or "kv_tile"."""
    each: str = "for each key tile"
    series: tuple[str, ...] = ()
    """Names in rows.js of the curves beside the grid."""
    bars: str = ""
    """What the bars of the tile's rows show: "l", "share" or "weight"; "" for none."""
    cells: str = "share"
    """A done tile is drawn by its "share" of the row's attention, "plain" (computed, nothing known of it), or not at all ("")."""


@dataclass(frozen=True)
class AlgorithmView:
    """The kernels of an algorithm in the order of Trace.kernels, and the strips of tiles around the grid."""

    kernels: tuple[KernelView, ...]
    top: tuple[str, ...] = ("K", "V")
    """Tensors cut along the keys."""
    left: tuple[str, ...] = ("Q",)
    """Tensors cut along the queries that are only read."""
    right: tuple[str, ...] = ("O",)
    unvisited: str = "S: never in HBM"
    fresh: bool = False
    """Whether each kernel goes over the grid anew."""


FORWARD_SERIES = ("m", "l", "alpha", "distance")
BACKWARD = "kernels/algorithms/backward/backward.py"
STANDARD = "kernels/algorithms/standard/standard.py"

VIEWS = {
    "flash2": AlgorithmView((KernelView(("kernels/algorithms/flash2/forward.py", "_attn_fwd", "_attn_fwd_inner"), series=FORWARD_SERIES, bars="l"),)),
    "flash1": AlgorithmView(
        (
            KernelView(
                ("kernels/algorithms/flash1/forward_kv_outer.py", "_attn_fwd_kv_outer"), "kv_tile", "for each query tile that sees it", FORWARD_SERIES, bars="l"
            ),
        )
    ),
    "split_kv": AlgorithmView(
        (
            KernelView(("kernels/algorithms/split_kv/split_kv.py", "_attn_split_kv"), series=FORWARD_SERIES, bars="l"),
            KernelView(("kernels/algorithms/split_kv/split_kv.py", "_attn_combine"), each="for each part of the keys", series=("weight", "weights"), bars="weight"),
        ),
        top=("K", "V", "partial O"),
    ),
    "backward": AlgorithmView(
        (
            KernelView((BACKWARD, "_attn_bwd_preprocess"), cells=""),
            KernelView(
                ("kernels/algorithms/backward/dk_dv.py", "_attn_bwd_dk_dv", "_attn_bwd_dk_dv_inner"),
                "kv_tile", "for each query tile that sees it", ("share", "shares", "dK", "dV"), "share",
            ),
            KernelView(("kernels/algorithms/backward/dq.py", "_attn_bwd_dq", "_attn_bwd_dq_inner"), series=("share", "shares", "dQ"), bars="share"),
        ),
        top=("K", "V", "dK", "dV"), left=("Q", "dO"), right=("O", "D", "dQ"), unvisited="P: recomputed, never in HBM", fresh=True,
    ),
    "backward_q_outer": AlgorithmView(
        (KernelView(("kernels/algorithms/backward_q_outer/q_outer.py", "_attn_bwd_q_outer"), series=("share", "shares", "dK", "dV"), bars="share"),),
        top=("K", "V", "dK", "dV"), left=("Q", "dO"), right=("O", "dQ"), unvisited="P: recomputed, never in HBM",
    ),
    "row_wise": AlgorithmView(
        (
            KernelView(("kernels/algorithms/row_wise/row_wise.py", "_row_wise"), series=("m",), cells="plain"),
            KernelView(("kernels/algorithms/row_wise/row_wise.py", "_row_wise", "", 1), series=("share", "shares", "distance"), bars="share"),
        )
    ),
    "standard": AlgorithmView(
        (
            KernelView((STANDARD, "_scores"), cells="plain"),
            KernelView((STANDARD, "_softmax"), each="for each tile of S", series=("m",), cells="plain"),
            KernelView((STANDARD, "_softmax", "", 1), each="for each tile of P", series=("share", "shares"), bars="share"),
            KernelView((STANDARD, "_product"), series=("share", "shares", "distance"), bars="share"),
        ),
        unvisited="not yet; S and P go to HBM",
    ),
}  # fmt: skip
