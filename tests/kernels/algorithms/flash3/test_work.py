"""How the programs of the Hopper kernel share out the query tiles, on the host."""

import itertools
import random
from types import SimpleNamespace

import pytest

from kernels.algorithms.flash3 import work as work_module
from kernels.algorithms.flash3.work import divisor, next_unit, query_tile_of, work_units


def test_a_division_by_multiplication_is_exact():
    random.seed(0)
    for _ in range(20000):
        number = random.choice([random.randint(1, 200), random.randint(1, 1 << 31)])
        _, multiplier, shift = divisor(number)
        for value in (
            random.randrange(1 << 31),
            random.randrange((1 << 31) // number + 1) * number,
            (random.randrange(99) + 1) * number - 1,
        ):
            if value < 1 << 31:
                quotient = value if multiplier == 0 else (value * (multiplier % (1 << 32)) >> 32) >> shift
                assert quotient == value // number, (value, number)
        assert -(1 << 31) <= multiplier < 1 << 31


@pytest.mark.parametrize("bound_right", [False, True])
@pytest.mark.parametrize("programs", [1, 4, 132])
@pytest.mark.parametrize("q_tiles", [1, 2, 3, 8, 9])
def test_the_programs_share_out_every_query_tile_once(q_tiles, programs, bound_right, monkeypatch):
    """Calls the kernel's own `query_tile_of` and `next_unit` on the host."""
    where = lambda condition, a, b: a if condition else b  # noqa: E731
    umulhi = lambda a, b: a * (b % (1 << 32)) >> 32  # noqa: E731
    language = SimpleNamespace(where=where, umulhi=umulhi, num_programs=lambda axis: programs)
    monkeypatch.setattr(work_module, "gl", language)
    monkeypatch.setattr(work_module, "divide", work_module.divide.fn)
    work = work_units(3, 5, q_tiles, bound_right)
    places, lengths = [], []
    for program in range(min(programs, work.units)):
        unit, second = program, False
        while unit < work.units:
            places.append(query_tile_of.fn(unit, second, work))
            if unit < work.pairs:
                lengths.append((unit, places[-1][2] + 1))
            unit, second = next_unit.fn(unit, second, work)
    assert sorted(places) == sorted(itertools.product(range(3), range(5), range(q_tiles)))
    pairs = {unit: sum(length for other, length in lengths if other == unit) for unit, _ in lengths}
    assert set(pairs.values()) <= {q_tiles + 1}  # all pairs are the same work under a causal mask
