"""The online softmax of a warpgroup. What it computes is said in primitives/online_softmax.py.

Two things differ, so that a step has fewer instructions that wait for one another. Alone they made the
kernel 1 % faster in the mean (-1 to +4 %; H200, 11 cells of head_dim 64 and 128). With head_dim 256 they made
it 1 % slower in the mean, so there the shared function runs.

- Four threads share a row of S. Each adds up its own columns; `row_sums` adds the four together only when the
  output is written, or when a step is recorded.
- A thread takes the max of its even and of its odd columns apart, because each max waits for the one before.
"""

from kernels.primitives.online_softmax import finite_or_zero

from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def by_thread(scores):
    """(rows, keys) as (rows, keys / 8, 4 threads, 2): a thread has columns 8 i + 2 (thread % 4) + {0, 1}."""
    ROWS: gl.constexpr = scores.shape[0]
    PAIRS: gl.constexpr = scores.shape[1] // 8
    return scores.reshape([ROWS, PAIRS, 4, 2])


@gluon.jit
def laid_out_like(rows, other):
    """The same numbers in the layout of `other`, which differs in name only: none moves between threads."""
    return gl.convert_layout(rows, other.type.layout, assert_trivial=True)


@gluon.jit
def softmax_step(scores, m, scale_log2):
    """One tile of scores (rows, keys) joins the row max m (rows,). Returns P, the new m, sums and alpha.

    sums (rows, 4) are the row sums of P, each thread's columns apart. The others are as in `online_softmax`.
    """
    # [row max]
    of_thread = gl.max(gl.max(by_thread(scores), axis=1), axis=2)
    m_new = gl.maximum(m, laid_out_like(gl.max(of_thread, axis=1), m) * scale_log2)
    shift = finite_or_zero(m_new)
    # [exponentials]
    p = gl.exp2(scores * scale_log2 - shift[:, None])
    sums = gl.sum(gl.sum(by_thread(p), axis=1), axis=2)
    # [rescale]
    alpha = gl.exp2(m - shift)
    # [end]
    return p, m_new, sums, alpha


@gluon.jit
def join_sums(l, alpha, sums):
    """The row sums so far and those of one more tile: (rows, 4), each thread's columns apart."""
    ROWS_OF: gl.constexpr = gl.SliceLayout(1, l.type.layout)
    # [rescale]
    return l * gl.convert_layout(alpha, ROWS_OF, assert_trivial=True)[:, None] + sums
    # [end]


@gluon.jit
def row_sums(l, m):
    """l (rows,), in the layout of m, from the sums of each thread."""
    return laid_out_like(gl.sum(l, axis=1), m)
