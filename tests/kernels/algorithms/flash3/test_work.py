"""How the programs of the Hopper kernel share out the query tiles, on the host."""

import random

import torch

from kernels.algorithms.flash3.work import divisor, work_of
from kernels.primitives.replay import _Recording
from kernels.problem import Band


def test_whole_turns_of_heads_whose_keys_are_kept_and_nothing_that_a_replay_cannot_repeat():
    query, key = torch.empty(3, 4, 300, 64), torch.empty(3, 2, 65536, 64)

    def work(kv_len, right, programs):
        band = Band.of(300, kv_len, None, right)
        return work_of(query, key[:, :, :kv_len].contiguous(), 128, band, programs)

    with _Recording([query, key]) as recording:
        long = work_of(query, key, 128, Band.of(300, 65536, None, 0), programs=2)
    assert recording.steps == []
    assert (long.units, long.q_tiles.number, long.claims) == (36, 3, True)
    assert long.in_turn.number == 1  # K and V of a key head are 33 MB
    assert work(1000, 0, programs=2).in_turn.number == 12
    assert work(1000, None, programs=2).claims is False
    assert work(1000, 0, programs=36).claims is False


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
