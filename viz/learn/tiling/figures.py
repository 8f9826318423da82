"""One step of a tiled product or of tiled attention, as matrices: tiles at work, done, and never stored."""

import numpy as np

from viz.learn.matrices import Matrix, looks
from viz.learn.tiling.maths import AttentionStep, ProductStep, span, tiles_of

ALL = slice(None)


def product_matrices(a: np.ndarray, b: np.ndarray, tile: int, step: ProductStep) -> list[Matrix | str]:
    """A (M, K) and B (K, N) with the two tiles at work, their product, and C (M, N) so far."""
    i, j, k = span(step.i, tile), span(step.j, tile), span(step.k, tile)
    of_c = looks(step.result.shape, "empty", done=(slice(0, i.start), ALL))
    of_c[i, : j.start] = "done"
    of_c[i, j] = "now"
    size = (tile, tile)
    name_a, name_b = f"A{_sub(step.i, step.k)}", f"B{_sub(step.k, step.j)}"
    of_c_tile = f"C{_sub(step.i, step.j)} {'done' if step.k + 1 == tiles_of(a.shape[1], tile) else 'so far'}"
    product, added = f"{name_a} {name_b}", "is added to"
    return [
        Matrix("A", a, "query", looks(a.shape, now=(i, k)), size, name_a),
        "×",
        Matrix("B", b, "key", looks(b.shape, now=(k, j)), size, name_b),
        "→",
        Matrix(product, step.partial, "muted", looks(step.partial.shape, "now"), size, added),
        "→",
        Matrix("C", step.result, "output", of_c, size, of_c_tile),
    ]


def attention_matrices(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, tile: int, step: AttentionStep
) -> list[Matrix | str]:
    """Q, the transpose of K, the one tile of S that exists, V, and O so far."""
    rows, keys, head_dim = span(step.i, tile), span(step.j, tile), query.shape[1]
    of_key = looks(key.T.shape, now=(ALL, keys))
    return [
        Matrix("Q", query, "query", looks(query.shape, now=(rows, ALL)), (tile, head_dim)),
        "×",
        Matrix("K<sup>T</sup>", key.T, "key", of_key, (head_dim, tile)),
        "→",
        _one_tile("S", step.scores, (len(query), len(key)), tile, step, "hatched: never stored"),
        "×",
        *_value_and_output(value, tile, step, _output_looks(step, rows)),
    ]


def softmax_matrices(
    value: np.ndarray, exact: np.ndarray, tile: int, step: AttentionStep, online: bool
) -> list[Matrix | str]:
    """S, P and the state of a tile, V, O so far with its wrong finished entries marked, and the exact O."""
    shape, rows = (len(exact), len(value)), span(step.i, tile)
    output_looks = _output_looks(step, rows)
    finished = output_looks == "done"
    finished[rows] |= step.last_of_row
    output_looks[finished & ~np.isclose(step.output, exact)] = "bad"
    state = {"m": step.m, "α": step.alpha, "l": step.l} if online else {"Σ": step.l}
    note = "e^(S − m), before l" if online else "softmax of each tile"
    size = (tile, exact.shape[1])
    return [
        _one_tile("S", step.scores, shape, tile, step, "hatched: never stored"),
        "→",
        _one_tile("P", step.weights, shape, tile, step, note),
        *(
            _only(name, values[:, None], (len(exact), 1), (rows, ALL), "state", (tile, 1))
            for name, values in state.items()
        ),
        "×",
        *_value_and_output(value, tile, step, output_looks),
        Matrix("O without tiles", exact, "good", looks(exact.shape), size, "softmax(S) V"),
    ]


def _only(
    label: str,
    part: np.ndarray,
    shape: tuple[int, int],
    region: tuple[slice, slice],
    color: str,
    tile: tuple[int, int],
    note: str = "",
) -> Matrix:
    """A matrix of which only the `part` in a region exists."""
    values = np.zeros(shape)
    values[region] = part
    return Matrix(label, values, color, looks(shape, "empty", now=region), tile, note)


def _one_tile(
    name: str, part: np.ndarray, shape: tuple[int, int], tile: int, step: AttentionStep, note: str
) -> Matrix:
    label, region = f"{name} with only tile {step.i}, {step.j}", (span(step.i, tile), span(step.j, tile))
    return _only(label, part, shape, region, "muted", (tile, tile), note)


def _output_looks(step: AttentionStep, rows: slice) -> np.ndarray:
    """Looks of O while its `rows` are at work: those before are done, those after are empty."""
    return looks(step.output.shape, "empty", done=(slice(0, rows.start), ALL), now=(rows, ALL))


def _value_and_output(
    value: np.ndarray, tile: int, step: AttentionStep, output_looks: np.ndarray
) -> tuple[Matrix, str, Matrix]:
    of_value, size = looks(value.shape, now=(span(step.j, tile), ALL)), (tile, value.shape[1])
    note = f"O{_sub(step.i)} {'done' if step.last_of_row else 'so far'}"
    output = Matrix("O", step.output, "output", output_looks, size, note)
    return Matrix("V", value, "value", of_value, size), "→", output


def _sub(*indices: int) -> str:
    return f"<sub>{','.join(str(index) for index in indices)}</sub>"
