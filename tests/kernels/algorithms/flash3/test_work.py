"""How the programs of the Hopper kernel share out the query tiles, on the host."""

import random

import torch

from kernels.algorithms.flash3.work import divisor, work_of
from kernels.primitives.replay import _Recording


def test_whole_turns_of_heads_whose_keys_are_kept_and_nothing_that_a_replay_cannot_repeat():
    query, key = torch.empty(3, 4, 300, 64), torch.empty(3, 2, 65536, 64)
    with _Recording([query, key]) as recording:
        work = work_of(query, key, 128, bounds_right=True, programs=2)
    assert recording.steps == []
    assert (work.units, work.q_tiles.number, work.claims) == (36, 3, True)
    assert work.in_turn.number == 1  # K and V of a key head are 33 MB
    short = work_of(query, key[:, :, :1000], 128, bounds_right=True, programs=2)
    assert short.in_turn.number == 12
    assert work_of(query, key[:, :, :1000], 128, bounds_right=False, programs=2).claims is False
    assert work_of(query, key, 128, bounds_right=True, programs=36).claims is False


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
