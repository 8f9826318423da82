"""Pictures of a tile step that several kernels share."""

from kernels.trace.algorithm import Kernel, Product, RecordedMatrix, Slot, TileFigure

Q = Slot("Q", 1, 0, "q_tile", "head_dim")
K = Slot("K", 0, 1, "kv_tile", "head_dim", transposed=True)
SCORES = Slot("S", 1, 1, "q_tile", "kv_tile")
V = Slot("V", 0, 2, "kv_tile", "head_dim")
O = Slot("O", 1, 2, "q_tile", "head_dim")

SCORE_PRODUCT = Product("S", "Q", "K", "row", "row", "QK^T")
WEIGHED_SUM = Product("O", "S", "V", "row", "column", "PV")


def forward_figure(
    load_q: str = "load Q", load_k: str = "load K", load_v: str = "load V", old_o: str = ""
) -> TileFigure:
    """S = Q K^T, then O += P V, with the names of the phases that load their factors.

    `old_o` is the phase that loads the O of the step before from HBM, if the kernel does not keep it.
    """
    loaded = (RecordedMatrix("O from HBM", "O", old_o, "O from HBM"),) if old_o else ()
    return TileFigure(
        slots=(Q, K, SCORES, V, O),
        matrices=(
            RecordedMatrix("Q", "Q", load_q),
            RecordedMatrix("K", "K", load_k, "Kᵀ"),
            RecordedMatrix("QK^T", "S", "QK^T", "scores QKᵀ / √d", scaled=True),
            RecordedMatrix("S", "S", "mask", "scores, masked", scaled=True),
            RecordedMatrix("P", "S", "exponentials", "raw weights", made_of=("QK^T",)),
            RecordedMatrix("V", "V", load_v),
            *loaded,
            RecordedMatrix("O rescaled", "O", "rescale", "O × α"),
            RecordedMatrix("acc", "O", "PV", "O so far", is_field=True),
        ),
        products=(SCORE_PRODUCT, WEIGHED_SUM),
    )


DK, DV = (Slot(name, row, 3, "kv_tile", "head_dim", transposed=True) for name, row in (("dK", 0), ("dV", 2)))
GRADIENTS = {
    "dV": (DV, Product("dV", "S", "dO", "column", "column", "dV")),
    "dK": (DK, Product("dK", "dS", "Q", "column", "column", "dK")),
    "dQ": (Slot("dQ", 1, 3, "q_tile", "head_dim"), Product("dQ", "dS", "K", "row", "column", "dQ")),
}
GRADIENT_FIELDS = {"dV": "acc_dv", "dK": "acc_dk", "dQ": "acc"}


BACKWARD_SLOTS = (
    Q,
    K,
    SCORES,
    Slot("lse", 1, 2, "q_tile", "one"),
    Slot("dO", 3, 0, "q_tile", "head_dim"),
    Slot("V", 2, 1, "kv_tile", "head_dim", transposed=True),
    Slot("dS", 3, 1, "q_tile", "kv_tile"),
    Slot("D", 3, 2, "q_tile", "one"),
)


def backward_figure(
    load_q: str,
    load_k: str,
    load_v: str,
    load_do: str,
    sums: tuple[str, ...],
    d_scores: str = "dS = P (dP − D)",
) -> TileFigure:
    """P from lse, dP = dO V^T, dS = P (dP - D), and the gradients `sums` that the kernel adds up.

    A kernel that sums dK and dV masks P; one that sums dQ alone masks the scores, like the forward pass.
    lse and D come with dO if its phase says so, else with what is made of them.
    """
    masks_p = "dV" in sums
    what = "P, masked" if masks_p else "scores, masked"
    load_lse, load_d = (load_do, load_do) if "lse, D" in load_do else ("P from lse", "dS")
    matrices = (
        RecordedMatrix("Q", "Q", load_q),
        RecordedMatrix("K", "K", load_k, "Kᵀ"),
        RecordedMatrix("QK^T", "S", "QK^T", "scores QKᵀ / √d", scaled=True),
        RecordedMatrix("lse", "lse", load_lse),
        RecordedMatrix("P", "S", "P from lse", "P = e^(score − lse)", made_of=("QK^T", "lse")),
        RecordedMatrix("masked", "S", "mask", what, scaled=not masks_p),
        RecordedMatrix("V", "V", load_v, "Vᵀ"),
        RecordedMatrix("dO", "dO", load_do),
        RecordedMatrix("dP", "dS", "dP", "dP = dO Vᵀ"),
        RecordedMatrix("D", "D", load_d),
        RecordedMatrix("dS", "dS", "dS", d_scores, made_of=("P", "dP", "D")),
    )
    summed = (
        RecordedMatrix(GRADIENT_FIELDS[name], name, name, f"{name} so far", is_field=True) for name in sums
    )
    return TileFigure(
        slots=(*BACKWARD_SLOTS, *(GRADIENTS[name][0] for name in sums)),
        matrices=(*matrices, *summed),
        products=(
            SCORE_PRODUCT,
            Product("dS", "dO", "V", "row", "row", "dP"),
            *(GRADIENTS[name][1] for name in sums),
        ),
    )


IN_SLOTS = {"P": "S", "dP": "dS", "O out": "O"}
"""Data that lie in the slot of another name."""


def slots_of(kernel: Kernel) -> tuple[Slot, ...]:
    """The slots of a kernel's figure; without one, those of its pass that it fills."""
    if kernel.figure:
        return kernel.figure.slots
    moved = [(*phase.loads, *phase.needs, *phase.makes, *phase.stores) for phase in kernel.phases]
    names = {IN_SLOTS.get(name, name) for phase in moved for name in phase}
    backward = (*BACKWARD_SLOTS, *(slot for slot, _ in GRADIENTS.values()))
    slots = (*backward, O) if names & {"dO", "dS", "dQ"} else (Q, K, SCORES, V, O)
    return tuple(slot for slot in slots if slot.name in names)


COMBINE_FIGURE = TileFigure(
    slots=(
        Slot("partial lse", 0, 0, "q_tile", "one"),
        Slot("lse", 0, 1, "q_tile", "one"),
        Slot("partial O", 0, 2, "q_tile", "head_dim"),
        Slot("O", 1, 2, "q_tile", "head_dim"),
    ),
    matrices=(
        RecordedMatrix("lse", "lse", "log-sum-exp", "lse of all parts"),
        RecordedMatrix("partial O", "partial O", "load partial O", "O of this part"),
        RecordedMatrix("partial lse", "partial lse", "weigh", "lse of this part"),
        RecordedMatrix("O", "O", "weigh", "O so far"),
    ),
)
"""The weight of a part of the keys, and the part's O times it."""

OF_ROWS = {"O": "head_dim", "dO": "head_dim", "D": "one"}
DELTA_FIGURE = TileFigure(
    tuple(Slot(name, 0, place, "q_tile", width) for place, (name, width) in enumerate(OF_ROWS.items(), 1)),
    tuple(RecordedMatrix(name, name, "D" if name == "D" else "load O, dO") for name in OF_ROWS),
)
"""D of a row is its row of O times that of dO."""
