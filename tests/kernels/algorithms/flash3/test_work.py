"""How the programs of the Hopper kernel share out the query tiles, on the host."""

import random

from kernels.algorithms.flash3.work import divisor


def test_a_division_by_multiplication_is_exact():
    random.seed(0)
    for _ in range(5000):
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
