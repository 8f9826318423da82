"""The user's function as the judge calls it: in another process, which alone imports it (`hosting.py`).

Tensors and plain values cross between the two.
"""

import io
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec
import torch

from kernels.check.case.cases import CheckCase
from kernels.check.subject.user_errors import Broken, Refused, UserKernelError, crash_words
from kernels.check.subject.user_kernel import user_kernel
from kernels.oracle.rule import GRADIENTS
from kernels.problem import InvalidProblem
from kernels.sanitizer.finding import Finding
from kernels.sanitizer.source import Site
from kernels.worker.failures import Crashed, JobFailure
from kernels.worker.process import HOST
from kernels.worker.requests import Progress, Request

Place = Literal["new", "same tensors", "same memory"]


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


@dataclass(frozen=True)
class Reply:
    """How a call ended: with tensors, or with the words and the trace of an error.

    Of a case that is opened, `broken` says why the function could not be loaded.
    """

    seen: Seen = field(default_factory=Seen)
    tensors: int = 0
    memory: tuple[bytes, ...] = ()
    """The tensors, so many, then the memory that the function was handed."""
    refused: str = ""
    broken: str = ""
    trace: str = ""


@dataclass(frozen=True)
class OpenRequest(Request[Reply]):
    """Load the user's function, "file.py:function", for the calls of one case. This closes the last case."""

    kernel: str
    case: CheckCase

    def run(self, progress: Progress) -> Reply:
        from kernels.check.subject import hosting

        return hosting.opened(self)


@dataclass(frozen=True)
class CallRequest(Request[Reply]):
    """A call on `packed` tensors; the answer brings back their memory after the results."""

    verb: Literal["forward", "attach", "derive"]
    """Call it; call it with inputs that require gradients; the gradients of such a call for one dO."""
    tensors: bytes
    controls: Controls
    place: Place = "new"
    """Whether it is called on new tensors, on those of the call before with other numbers, or on new ones in
    their memory. Then the result of the call before, as it is then, comes before that of this one."""
    learning: tuple[str, ...] = ()
    """Names of the gradients that are wanted."""
    graph: int = 0
    """Number of the call, counted from 0, whose gradients are asked for. The last two are kept."""
    keep: bool = False
    """Whether the same gradients may be asked for again."""

    def run(self, progress: Progress) -> Reply:
        from kernels.check.subject import hosting

        return hosting.called(self)


@dataclass(frozen=True)
class Graph:
    """A call with inputs that require gradients: O, and what it was given."""

    hosted: "Hosted"
    number: int
    out: torch.Tensor
    leaves: dict[str, torch.Tensor]
    given: tuple[torch.Tensor, ...]

    def gradients(self, d_out: torch.Tensor, *, keep: bool = False) -> dict[str, torch.Tensor]:
        """Gradients of the leaves. With `keep` they can be asked for again. Raises Broken and Refused."""
        found = self.hosted.call(
            "derive", (d_out,), [*self.leaves.values()], self.given, graph=self.number, keep=keep
        )
        return dict(zip(self.leaves, found, strict=True))


class Hosted:
    """One case of the user's function. Raises Refused, UserKernelError and JobFailure."""

    of = ""
    """The last function, as `UserKernel.argument`: another one gets a process of its own."""

    def __init__(self, case: CheckCase) -> None:
        self.controls = Controls()
        self._graphs = self._sames = 0
        self._last: tuple[torch.Tensor, ...] = ()
        self._out: torch.Tensor | None = None
        """What `forward` gave last: it changes if the function writes into the same memory again."""
        kernel = user_kernel(case.kernel)
        if Hosted.of not in ("", kernel.argument):
            HOST.end()
        Hosted.of = kernel.argument
        self.limits = kernel.limits
        opened = _asked(OpenRequest(kernel.argument, case))
        self._start = HOST.changes
        if opened.broken:
            raise UserKernelError(opened.broken, opened.trace)
        if opened.refused:
            raise Refused(opened.refused)
        self.seen = opened.seen

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """O and lse. A call on the same tensors as the last one finds the same ones there, too.

        The next such call finds other tensors in the same memory.
        """
        same = len(tensors) == len(self._last) and all(map(torch.Tensor.is_set_to, tensors, self._last))
        self._sames = self._sames + 1 if same else 0
        place: Place = ("new", "same tensors", "same memory")[min(self._sames, 2)]
        query = tensors[0]
        lse = query.new_empty(query.shape[:3], dtype=torch.float32)
        earlier = [self._out] if same and self._out is not None else []
        found = self.call("forward", tensors, [*earlier, query, lse], place=place)
        if earlier:
            earlier[0].copy_(found.pop(0))
        self._last, self._out = tensors, found[0]
        return found[0], found[1] if found[1:] else None

    def attached(self, *tensors: torch.Tensor, learning: Sequence[str] = GRADIENTS) -> Graph:
        (out,) = self.call("attach", tensors, tensors[:1], learning=tuple(learning), graph=self._graphs)
        leaves = dict(zip(GRADIENTS, tensors, strict=True))
        self._graphs += 1
        return Graph(self, self._graphs - 1, out, {name: leaves[name] for name in learning}, tensors)

    def call(
        self,
        verb: Literal["forward", "attach", "derive"],
        tensors: Sequence[torch.Tensor],
        like: Sequence[torch.Tensor],
        also: Sequence[torch.Tensor] = (),
        **options: Any,
    ) -> list[torch.Tensor]:
        """Results shaped and typed as `like`, of which the last may be missing.

        The memory of `tensors`, and that of `also` from a call before, becomes what the call made of it.
        """
        if HOST.changes != self._start:
            raise Broken("its process had ended before")
        reply = _asked(CallRequest(verb, packed(tensors), replace(self.controls), **options))
        self.seen, given = reply.seen, iter(reply.memory)
        results = [taken(given, each) for each in like[: reply.tensors]]
        for storage in (*storages_of(tensors), *storages_of(also)):
            storage.copy_(taken(given, storage))
        if reply.refused:
            raise Refused(reply.refused)
        if reply.broken or not results:
            raise Broken(reply.broken, reply.trace)
        return results


def _asked(request: Request[Reply]) -> Reply:
    """The host's answer. Its end is the function's failure, and so is an answer that is none."""
    try:
        return msgspec.convert(printable(HOST.ask(request)), Reply)
    except Crashed as error:
        if error.exit_code == -signal.SIGKILL:
            words = "its process was ended by SIGKILL, as the system does if memory runs out"
            raise JobFailure(words) from error
        raise Broken(crash_words(error.exit_code, error.detail)) from error
    except (InvalidProblem, msgspec.ValidationError) as error:
        HOST.end()
        raise Broken(f"its process gave an answer that is none: {error}") from error


def printable(value: Any, key: str = "") -> Any:
    """The same plain value with texts of one line (but for a trace) that can be printed anywhere."""
    if isinstance(value, dict):
        return {printable(name): printable(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [printable(each) for each in value]
    if not isinstance(value, str):
        return value
    kept = "\n" if key == "trace" else ""
    return "".join(each if each.isprintable() or each in kept else " " for each in value)


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
