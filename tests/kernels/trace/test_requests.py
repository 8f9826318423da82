"""Bytes of a trace against an independent count of the interpreter's loads and stores."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.device.runtime import DEVICE
from tests.anywhere import ANYWHERE
from tests.kernels.helpers import problem_id
from tests.kernels.trace.problems import PROBLEMS

TENSORS = {
    "Q": ("query",),
    "K": ("key",),
    "V": ("value",),
    "O": ("out", "state_o"),
    "lse": ("lse_ptr",),
    "m": ("state_m",),
    "l": ("state_l",),
    "partial O": ("partial_o_ptr",),
    "partial lse": ("partial_lse_ptr",),
    "table": ("table",),
    "dO": ("d_out",),
    "D": ("delta_ptr",),
    "dQ": ("d_query", "sum_dq"),
    "dK": ("d_key", "sum_dk"),
    "dV": ("d_value", "sum_dv"),
}
"""The arguments by which kernels name a tensor."""
NAMES = {argument: tensor for tensor, arguments in TENSORS.items() for argument in arguments}


class Requests:
    """Every masked load and store of Triton's interpreter, counted from outside the kernels."""

    def __init__(self, interpreter):
        self.found = []
        """(kernel, program, tensor, direction, bytes)"""
        self.kernel, self.ranges = "", []
        self.builder = interpreter.interpreter_builder

    def launched(self, kernel, arguments):
        """Remember where the tensors of a launch lie."""
        self.kernel = kernel
        tensors = {name: value for name, value in arguments.items() if name in NAMES and value is not None}
        self.ranges = [
            (NAMES[name], storage.data_ptr(), storage.data_ptr() + storage.nbytes())
            for name, value in tensors.items()
            for storage in [getattr(value, "base", value).untyped_storage()]
        ]

    def note(self, pointers, mask, direction):
        """Count the bytes of a load or store by the tensor that it starts in."""
        itemsize = pointers.get_element_ty().primitive_bitwidth // 8
        asked = mask if isinstance(mask, np.ndarray) else mask.data  # descriptors hand over the bare array
        addresses = np.broadcast_to(pointers.data, asked.shape)[asked]
        for tensor, start, end in self.ranges:
            if addresses.size and start <= int(addresses.min()) < end:
                size = addresses.size * itemsize
                self.found.append((self.kernel, self.builder.grid_idx, tensor, direction, size))


@pytest.fixture
def requests(monkeypatch):
    """The list of `Requests`, which grows with every launch."""
    if DEVICE != "cpu":
        pytest.skip("counts the interpreter's requests")
    from triton.runtime import interpreter

    noted, builder = Requests(interpreter), interpreter.InterpreterBuilder
    launch = interpreter.GridExecutor.__call__
    load, store = builder.create_masked_load, builder.create_masked_store

    def launch_noted(self, *args, **arguments):
        noted.launched(self.fn.__name__, dict(zip(self.arg_names, args, strict=False)) | arguments)
        return launch(self, *args, **arguments)

    def counted_load(self, pointers, mask, *rest, **named):
        noted.note(pointers, mask, "read")
        return load(self, pointers, mask, *rest, **named)

    def counted_store(self, pointers, value, mask, *rest, **named):
        noted.note(pointers, mask, "write")
        return store(self, pointers, value, mask, *rest, **named)

    monkeypatch.setattr(interpreter.GridExecutor, "__call__", launch_noted)
    monkeypatch.setattr(builder, "create_masked_load", counted_load)
    monkeypatch.setattr(builder, "create_masked_store", counted_store)
    return noted.found


def in_order(entries):
    """The non-zero requests of each program, in their order; programs in any order.

    {(kernel, tensor, direction): Counter of the tuples of sizes, one per program}.
    """
    programs = defaultdict(lambda: defaultdict(list))
    for kernel, program, tensor, direction, size in entries:
        if size:
            programs[kernel, tensor, direction][program].append(int(size))
    return {key: Counter(tuple(sizes) for sizes in of.values()) for key, of in programs.items()}


@pytest.mark.parametrize("algorithm", [name for name in ANYWHERE if ALGORITHMS[name].runs_in == "triton"])
@pytest.mark.parametrize("problem", [*PROBLEMS[1:4], PROBLEMS[-1]], ids=problem_id)
def test_bytes_match_an_independent_count_of_loads_and_stores_and_the_formula(problem, algorithm, requests):
    run, entry = run_traced(problem, algorithm), ALGORITHMS[algorithm]
    assert not entry.has_formula or run.total_bytes == entry.requested_bytes(problem)
    claimed = in_order(
        (run.kernels[run.kernel[step]], int(run.program[step]), tensor, direction, amounts[step, column])
        for direction, amounts in (("read", run.tensor_bytes_read), ("write", run.tensor_bytes_written))
        for step in range(run.steps)
        for column, tensor in enumerate(run.tensors)
    )
    counted = in_order(entry for entry in requests if entry[0] in run.kernels)
    assert claimed.keys() == counted.keys()
    for key, programs in claimed.items():
        if key[:2] == ("_attn_combine", "partial lse"):  # its first step claims two loads at once
            both = ([sum(each) for each in of.elements()] for of in (programs, counted[key]))
            assert len({sum(totals) for totals in both}) == 1
        else:
            assert programs == counted[key], key
