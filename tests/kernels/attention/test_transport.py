"""Tensors that ranks pull from each other: threads stand for GPUs, and a rank may be late at any time."""

import random
import threading
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch

from kernels.attention.context_parallel import transport

RANKS, STEPS = 3, 5


class Memory:
    """Stands for torch's symmetric memory of ranks that are threads."""

    def __init__(self):
        self.kept = [None] * RANKS
        self.met = threading.Barrier(RANKS, timeout=20)

    def empty(self, *shape, dtype, device):
        return torch.empty(*shape, dtype=dtype)

    def rendezvous(self, kept, group):
        self.kept[group.rank] = kept
        self.met.wait()
        parts = list(self.kept)
        self.met.wait()

        def get_buffer(rank, shape, dtype, offset):
            return parts[rank].view(-1).view(dtype)[offset:][: shape.numel()].view(shape)

        return SimpleNamespace(get_buffer=get_buffer, barrier=lambda **_: self.met.wait())


class Group(SimpleNamespace):
    __hash__ = object.__hash__

    def _get_backend(self, device):
        return SimpleNamespace(options=SimpleNamespace(_timeout=timedelta(seconds=20)))


def go_round(group, late, sizes, wrong):
    """Calls one after the other, in each of which a tensor goes round; the last tensor is smaller."""
    for call, size in enumerate(sizes):
        held = torch.empty(size)
        if call % 2:
            held = transport._next_place(group, held, 0)
        held.fill_(100 * call + group.rank)
        for step in range(1, STEPS + 1):
            held = held[: size // 2] if step == STEPS else held
            taken, theirs = transport._pull(group, held, 0, (group.rank - 1) % RANKS)
            time.sleep(late.random() / 500)
            taken.copy_(theirs)
            if not (taken == 100 * call + (group.rank - step) % RANKS).all():
                wrong.append((call, step, group.rank))
            held = taken


@pytest.mark.parametrize("seed", range(3))
def test_what_is_pulled_is_what_the_rank_before_held_whoever_is_late(monkeypatch, seed):
    monkeypatch.setattr(transport, "symmetric_memory", Memory())
    monkeypatch.setattr(transport, "_PLACES", {})
    monkeypatch.setattr(transport.dist, "get_rank", lambda group: group.rank)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    wrong, sizes = [], (64, 1000, 40, 40, 1000)
    ranks = [
        threading.Thread(
            target=go_round, args=(Group(rank=rank), random.Random(RANKS * seed + rank), sizes, wrong)
        )
        for rank in range(RANKS)
    ]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(60)
    assert wrong == []
    places = list(transport._PLACES.values())
    assert len(places) == RANKS
    assert transport.places_bytes() == RANKS * 2 * 4096  # of 4,000 bytes, in multiples of 256
