"""A repeated launch hands Triton's C launcher the arguments that Triton itself would hand it."""

import types

import pytest
import torch

from kernels.primitives import replay as relaunch
from kernels.primitives.replay import compiled_launch, is_watched

from triton import knobs
from triton.backends.nvidia import driver
from triton.tools.tensor_descriptor import TensorDescriptor

pytestmark = pytest.mark.skipif(
    not hasattr(driver, "make_tensordesc_arg"), reason="this Triton encodes descriptors elsewhere"
)
SIGNATURE = {0: "*fp16", 1: "tensordesc<fp16[1, 1, 16, 16]>", 2: "i32", 3: "tensordesc<fp16[1, 1, 16, 16]>"}


@pytest.fixture
def launched(monkeypatch):
    """What reaches the C launcher. A descriptor is encoded as its address."""
    encoded = []

    def encode(descriptor, metadata):
        encoded.append(descriptor.base.data_ptr())
        return [("map", metadata["swizzle"], encoded[-1]), *descriptor.shape, *descriptor.strides]

    monkeypatch.setattr(driver, "make_tensordesc_arg", encode)
    return types.SimpleNamespace(calls=[], encoded=encoded)


def compiled_for(launched, metadata=({"swizzle": 1}, {"swizzle": 2})):
    """A compiled kernel with Triton's own launcher, around a C launcher that writes down."""
    launcher = object.__new__(driver.CudaLauncher)
    fixed = ("num_ctas", "global_scratch_size", "global_scratch_align", "profile_scratch_size")
    others = ("profile_scratch_align", "launch_cooperative_grid", "launch_pdl")
    launcher.__dict__.update(dict.fromkeys(fixed + others, 0), arg_annotations=[], kernel_signature=b"")

    note = lambda *arguments: launched.calls.append(flat(arguments))  # noqa: E731
    launcher.launch = driver.wrap_handle_tensordesc(note, SIGNATURE, metadata)
    return types.SimpleNamespace(run=launcher, function=7, packed_metadata=(4, 1, 0))


def flat(arguments):
    return [leaf for item in arguments for leaf in (item if isinstance(item, (list, tuple)) else [item])]


def slots_of(first):
    return {id(tensor): slot for slot, tensor in enumerate(first)}


def descriptor_of(tensor):
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), [1, 1, 16, 16])


def tensors(count=3):
    return [torch.zeros(1, 2, 32, 16, dtype=torch.float16) for _ in range(count)]


def start_of(compiled, first, grid=(1,)):
    """A launch on a tensor, a number and the descriptors of two more tensors."""
    arguments = [first[0], descriptor_of(first[1]), 9, descriptor_of(first[2])]
    return compiled_launch(compiled, grid, arguments, slots_of(first))


def test_the_c_launcher_gets_what_triton_would_give_it(launched):
    compiled = compiled_for(launched)
    first, later = tensors(), tensors()
    start = start_of(compiled, first, (5, 6))
    for values in (first, later, first):
        start(values, 123)
        arguments = [values[0].data_ptr(), descriptor_of(values[1]), 9, descriptor_of(values[2])]
        compiled.run(5, 6, 1, 123, 7, (4, 1, 0), None, None, None, *arguments)
        repeated, original = launched.calls[-2:]
        assert repeated == original


def test_a_descriptor_is_encoded_once_per_address(launched, monkeypatch):
    monkeypatch.setattr(relaunch, "MOST_TENSOR_MAPS", 2)
    compiled = compiled_for(launched)
    first = tensors()
    start = start_of(compiled, first)
    launched.encoded.clear()
    for _ in range(3):
        start(first, 0)
    assert launched.encoded == [first[1].data_ptr(), first[2].data_ptr()]
    others = [tensors() for _ in range(5)]
    for values in others:
        start(values, 0)
    start(first, 0)  # forgotten meanwhile
    assert launched.encoded[-2:] == [first[1].data_ptr(), first[2].data_ptr()]


@pytest.mark.parametrize("way", ["another count", "no tensor maps", "another launcher"])
def test_a_launcher_that_looks_otherwise_is_not_repeated(way, launched):
    compiled = compiled_for(launched, **{"metadata": None} if way == "no tensor maps" else {})
    first = tensors()
    if way == "another launcher":
        compiled.run.launch = print
    arguments = [first[0], *map(descriptor_of, first[: 1 if way == "another count" else 2])]
    assert compiled_launch(compiled, (1,), arguments, slots_of(first)) is None


def test_a_kernel_without_descriptors_needs_nothing_of_the_launcher(launched):
    """A tensor may stand in a tuple."""
    compiled = compiled_for(launched, None)
    compiled.run.launch = lambda *arguments: launched.calls.append(arguments)
    first, later = tensors(2), tensors(2)
    compiled_launch(compiled, (1,), [first[0], (first[1], 9)], slots_of(first))(later, 0)
    given = flat(flat(launched.calls[-1]))  # Triton 3.7 hands all of a kernel's arguments on as one tuple
    assert given[-3:] == [later[0].data_ptr(), later[1].data_ptr(), 9]


def test_a_hook_of_tritons_is_seen():
    assert not is_watched()
    knobs.runtime.launch_enter_hook.add(print)
    watched = is_watched()
    knobs.runtime.launch_enter_hook.remove(print)
    assert watched
