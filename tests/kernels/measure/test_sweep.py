"""sweep.py: its cells, its time limit, partial results, and cells that fail."""

from kernels.measure import sweep
from tests.kernels.documents import measurement


def test_the_sweep_is_that_of_the_benchmarks_and_the_most_asked_for_comes_first():
    cells = sweep.sweep_cells()
    assert all(cell.problem.batch * cell.problem.q_len == 16384 for cell in cells)
    assert all(cell.problem.q_heads * cell.problem.head_dim == 2048 for cell in cells)
    assert {cell.problem.head_dim for cell in cells} == {64, 128, 256}
    assert {cell.problem.q_len for cell in cells} == {512, 1024, 2048, 4096, 8192, 16384}
    assert {cell.problem.mask for cell in cells} == {"full", "causal"}
    first = cells[: 6 * 2 * 2]
    assert {(cell.problem.dtype, cell.problem.head_dim) for cell in first} == {
        ("float16", 64),
        ("float16", 128),
    }
    assert len({cell.problem for cell in cells[:72]}) == 72
    assert all("flex" in cell.peers for cell in cells[72:])


def test_every_cell_is_saved_as_soon_as_it_is_measured(quick_cells):
    saved = []
    document = sweep.run_sweep(quick_cells, 1.0, saved.append, lambda line: None)
    assert [len(partial.measurements) for partial in saved] == [1, 2, 2]
    assert [len(partial.left_out) for partial in saved] == [1, 0, 0]
    assert [found.problem.q_len for found in document.measurements] == [32, 64]
    assert {result.direction for result in document.measurements[0].results} == {"forward", "backward"}


def test_what_there_was_no_time_for_is_named(quick_cells):
    document = sweep.run_sweep(quick_cells, 0.0, lambda document: None, lambda line: None)
    assert document.measurements == ()
    assert document.left_out == tuple(cell.name for cell in quick_cells)


def test_a_cell_that_fails_costs_that_cell_and_a_lost_device_the_rest(quick_cells, monkeypatch):
    def fail(problem, peers, directions, budget_s):
        if problem.q_len == 32:
            raise RuntimeError(message)
        return measurement(512)

    monkeypatch.setattr(sweep, "measure", fail)
    message = "no such thing"
    assert sweep.run_sweep(quick_cells, 1.0, lambda document: None, lambda line: None).left_out == (
        quick_cells[0].name,
    )
    message = "CUDA error: an illegal memory access was encountered"
    assert len(sweep.run_sweep(quick_cells, 1.0, lambda document: None, lambda line: None).left_out) == 2
