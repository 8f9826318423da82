"""What crosses between the judge and the process that runs the user's code: tensors and plain values."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from kernels.check.subject.user_errors import Broken
from kernels.sanitizer.finding import Finding
from kernels.sanitizer.source import Site


@dataclass
class Controls:
    """How the next calls run."""

    filled: bool = False
    """Whether new tensors hold NaN."""
    in_reverse: bool = False
    """Whether the programs of a launch run in reverse."""
    spoils: bool = False
    """Whether launches store NaN instead of what they computed; on a GPU they do not run."""
    poisons: bool = True
    """Whether a masked load without `other` gives poison."""
    only: Site | None = None
    """The one line whose loads are poisoned; None for all."""
    configuration: int = 0
    """Which one of `@triton.autotune` is taken."""


@dataclass(frozen=True)
class Seen:
    """What was seen of the calls of a case so far. Only the interpreter tells more than notes."""

    notes: tuple[str, ...] = ()
    launches: dict[str, int] = field(default_factory=dict)
    """By "forward" and "backward": Triton kernels that the last such call launched."""
    written: tuple[str, ...] = ()
    """Results that a launch wrote, as far as the interpreter tells."""
    watched: int = 0
    """Launches whose memory was watched."""
    programs: int = 0
    """Most programs of one launch."""
    atomics: bool = False
    undefined: tuple[Site, ...] = ()
    """Lines that loaded undefined values."""
    findings: tuple[Finding, ...] = ()
    configurations: dict[str, list[str]] = field(default_factory=dict)
    """By kernel: what each configuration of `@triton.autotune` sets."""


def storages_of(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The bytes that the tensors lie in, each storage once."""
    found = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in tensors}
    return [torch.empty(0, dtype=torch.uint8, device=each.device).set_(each) for each in found.values()]


def packed(tensors: Sequence[torch.Tensor]) -> bytes:
    """The tensors as views of their storages, for `unpacked`; only the judge's are sent like this."""
    buffer = io.BytesIO()
    torch.save([tensor.detach() for tensor in tensors], buffer)
    return buffer.getvalue()


def unpacked(blob: bytes) -> list[torch.Tensor]:
    """New tensors over new storages, which lie in them as those of `packed` do."""
    return torch.load(io.BytesIO(blob), weights_only=True)


def bytes_of(tensor: torch.Tensor) -> bytes:
    """Of a contiguous tensor."""
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().view(-1)
    return flat.view(torch.uint8).cpu().numpy().tobytes() if flat.numel() else b""


def another(tensor: torch.Tensor) -> torch.Tensor:
    """A new tensor in the same memory, with as many changes counted as one of `unpacked`."""
    place = (tensor.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())
    return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(*place)


def taken(given: Iterator[bytes], like: torch.Tensor) -> torch.Tensor:
    """The next contiguous tensor, in memory of its own. Raises Broken if its bytes are not those."""
    data, flat = next(given, b""), torch.empty(like.shape, dtype=like.dtype, device=like.device)
    if len(data) != flat.nbytes:
        raise Broken(f"its process gave {len(data):,} bytes for {like.dtype} {tuple(like.shape)}")
    if data:
        flat.copy_(torch.frombuffer(bytearray(data), dtype=like.dtype).reshape(like.shape))
    return flat
