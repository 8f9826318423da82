"""The user's function in the process that imports it: opened for one case, and called as the judge asks.

Nothing here judges. Whatever the user's code changes in this process, the judge has the bytes alone.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, nullcontext

import torch

from kernels.check.case.cases import CheckCase
from kernels.check.case.layouts import NAMES, Handed
from kernels.check.case.limits import OUTSIDE
from kernels.check.subject.hosted import (
    CallRequest,
    OpenRequest,
    Reply,
    Seen,
    another,
    bytes_of,
    storages_of,
    unpacked,
)
from kernels.check.subject.subjects import Attached, Guard, attached_call
from kernels.check.subject.user_errors import Broken, Refused, UserKernelError
from kernels.check.subject.user_kernel import UserKernel, check_output, lse_of, user_kernel
from kernels.device.determinism import filled_memory
from kernels.device.interpreter import count_compiled_launches, count_launches
from kernels.device.no_gpu import CONFIGURATIONS
from kernels.device.runtime import DEVICE, INTERPRETED
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.inputs import make_inputs
from kernels.sanitizer.play import play
from kernels.sanitizer.watch import watch_memory
from kernels.trace import Trace

Tensors = Sequence[torch.Tensor]
Results = dict[str, torch.Tensor]
"""By name."""
BEFORE = "before"
"""Names the last result as it is after another call."""
MOST_KEPT, LARGEST_KEPT = 24, 2**20
"""So many tensors of earlier calls, of so many bytes each, are held against what they were."""
STRIDE = 2**30


class FarApart:
    """Tensors of a GPU whose batches and heads lie STRIDE elements apart: int32 does not hold later offsets.

    The memory of all calls of a case. Each gets places of its own, until they come round again.
    """

    def __init__(self, problem: AttentionProblem) -> None:
        """Raises Refused without a GPU, or if the tensors are too long or its memory too small."""
        longest = problem.q_heads * max(problem.q_len, problem.kv_len) * problem.head_dim
        if INTERPRETED or longest > STRIDE:
            raise Refused("the layout far takes a GPU, and at most 2^30 elements per batch")
        elements, dtype = (problem.batch + problem.q_heads - 1) * STRIDE, getattr(torch, problem.dtype)
        try:
            self._memory = torch.empty(elements, dtype=dtype, device=DEVICE).untyped_storage()
        except torch.OutOfMemoryError as error:
            size = elements * dtype.itemsize / 2**30
            raise Refused(f"the layout far takes {size:.0f} GiB of GPU memory for this case") from error
        self._begin = 0

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same numbers in this memory."""
        _, heads, length, head_dim = tensor.shape
        size = heads * length * head_dim
        begin = self._begin if self._begin + size <= STRIDE else 0
        self._begin = begin + size
        strides = (STRIDE, STRIDE + length * head_dim, head_dim, 1)
        # a view would share its count of changes with those of earlier calls, whose graphs may be kept
        far = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return far.set_(self._memory, begin, tensor.shape, strides).copy_(tensor)


class Session:
    """Raises UserKernelError and Refused."""

    def __init__(self, kernel: UserKernel, case: CheckCase) -> None:
        with ExitStack() as stack:
            CONFIGURATIONS.begin()
            counted = count_launches() if INTERPRETED else count_compiled_launches()
            self._launches = stack.enter_context(counted)
            self.loaded = kernel.load()
            if outside := dict.fromkeys(self.loaded.limits.outside(case).values()):
                raise Refused(f"{OUTSIDE}: {', '.join(outside)}")
            try:
                self._attend = self.loaded.attend(case)
            except InvalidProblem as error:
                raise Refused(error.reason) from error
            # after the kernel is loaded, which may change the interpreter
            self._watch = stack.enter_context(watch_memory(listen=INTERPRETED))
            self.close: Callable[[], None] = stack.pop_all().close
        self._far = FarApart(case.problem) if case.layout == "far" else None
        self._guard = Guard(case.kernel, self.loaded, self._launches)
        self._inputs: tuple[Tensors, Tensors] = (), ()
        """The tensors of the last forward call, and those that were sent for it."""
        self._out: torch.Tensor | None = None
        """What the function returned last, itself."""
        self._kept: deque[tuple[str, torch.Tensor, bytes]] = deque(maxlen=MOST_KEPT)
        """What must stay as it is until the case is closed, in words, with a digest of its bytes."""
        self._counts: dict[str, int] = {}
        self._written: dict[str, None] = {}
        self._graphs: dict[int, tuple[Attached, Tensors]] = {}

    @property
    def seen(self) -> Seen:
        watch = self._watch
        return Seen(
            notes=tuple(self.loaded.notes),
            launches=self._counts,
            written=tuple(self._written),
            watched=watch.launches,
            programs=watch.programs,
            atomics=watch.atomics,
            undefined=tuple(watch.poison.sites),
            findings=watch.findings,
            configurations=CONFIGURATIONS.settings,
        )

    def forward(self, *tensors: torch.Tensor) -> Results:
        """O, and lse if the function gives it."""
        options = [each.clone() for each in self.loaded.options]
        out, second = self._guard("forward", self._attend, *tensors)
        if not all(map(torch.equal, options, self.loaded.options)):
            raise Broken("it changes its mask, or another option, in place")
        self._out = check_output(out, tensors[0])
        for name, tensor in zip(NAMES, tensors, strict=False):
            if self._out.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr():
                raise Broken(f"its result lies in the memory of {name}")
        lse = lse_of(second, tensors[0], self.loaded.limits, self.loaded.notes)
        return {"O": self._out} if lse is None else {"O": self._out, "lse": lse}

    def call(self, request: CallRequest) -> Reply:
        near: Tensors = unpacked(request.tensors)
        controls = request.controls
        changed = [what for what, kept, digest in self._kept if _digest(kept) != digest]
        tensors: Tensors = near
        if request.place != "new":
            tensors, near = self._again(request, near)
        elif self._far:
            tensors = [*map(self._far.copy, near)]
        memory = storages_of(near)
        self._watch.in_reverse, CONFIGURATIONS.number = controls.in_reverse, controls.configuration
        self._watch.spoils = self._launches.skipped = controls.spoils
        self._watch.poison.on, self._watch.poison.only = controls.poisons, controls.only
        launches = len(self._launches)
        self._watch.wrote.clear()
        results: Results = {}
        refused = broken = trace = ""
        try:
            if changed:
                raise Broken(f"{changed[0]} changed after the call")
            with filled_memory() if controls.filled else nullcontext():
                results = VERBS[request.verb](self, request, tensors, near)
        except Refused as error:
            refused = str(error)
        except Broken as error:
            broken, trace = str(error), error.trace
        if self._far:
            for judged, called in zip(near, tensors, strict=True):
                judged.copy_(called)
        self._keep("its result", results.values())
        self._keep("an input of an earlier call", memory)
        if not changed:  # else it was not called
            phase = "backward" if request.verb == "derive" else "forward"
            self._counts[phase] = len(self._launches) - launches
        wrote = self._watch.wrote
        self._written |= {
            name: None
            for name, each in results.items()
            if name != BEFORE and each.untyped_storage().data_ptr() in wrote
        }
        handed = memory
        if request.verb == "derive":
            handed = [*memory, *storages_of(self._graphs[request.graph][1])]
        memory_now = tuple(map(bytes_of, [*results.values(), *handed]))
        return Reply(self.seen, len(results), memory_now, refused, broken, trace)

    def _again(self, request: CallRequest, given: Tensors) -> tuple[Tensors, Tensors]:
        """The tensors of the call before with other numbers, or new ones in their memory; and those sent."""
        tensors, near = self._inputs
        own = {each.data_ptr() for each in storages_of(near)}
        self._kept = deque((each for each in self._kept if each[1].data_ptr() not in own), MOST_KEPT)
        with torch.no_grad():
            for tensor, other in zip(tensors, given, strict=True):
                tensor.copy_(other)
        if request.place == "same memory":
            tensors = [*map(another, tensors)]
        return tensors, near

    def _keep(self, what: str, tensors: Iterable[torch.Tensor]) -> None:
        """Hold these against themselves at later calls, unless they are large."""
        self._kept.extend((what, each, _digest(each)) for each in tensors if each.nbytes <= LARGEST_KEPT)

    def _forward(self, request: CallRequest, tensors: Tensors, near: Tensors) -> Results:
        before, self._inputs = self._out, (tensors, near)
        found = self.forward(*tensors)
        return {BEFORE: before} | found if request.place != "new" and before is not None else found

    def _attach(self, request: CallRequest, tensors: Tensors, near: Tensors) -> Results:
        if self.loaded.limits.forward_only:
            raise Refused("it is forward only")
        attached = attached_call(lambda *given: self._attend(*given)[0], self._guard)
        graph = attached(*tensors, learning=request.learning)
        last = [*self._graphs.items()][-1:]
        self._graphs = dict([*last, (request.graph, (graph, near))])
        return {"O": graph.out}

    def _derive(self, request: CallRequest, tensors: Tensors, near: Tensors) -> Results:
        graph, _ = self._graphs[request.graph]
        return graph.gradients(tensors[0], keep=request.keep)


def _digest(tensor: torch.Tensor) -> bytes:
    return hashlib.blake2b(bytes_of(tensor)).digest()


VERBS: dict[str, Callable[[Session, CallRequest, Tensors, Tensors], Results]] = {
    "forward": Session._forward,
    "attach": Session._attach,
    "derive": Session._derive,
}

_open: list[Session] = []


def close_sessions() -> None:
    """End the watch over the open case's memory."""
    while _open:
        _open.pop().close()


def opened(request: OpenRequest) -> Reply:
    """Open a case, in the place of the one before."""
    close_sessions()
    try:
        session = Session(UserKernel.unchecked(request.kernel), request.case)
    except Refused as error:
        return Reply(refused=str(error))
    except UserKernelError as error:
        return Reply(broken=str(error), trace=error.trace)
    except Exception as error:  # of what belongs to the user's file, such as a signature
        return Reply(broken=f"{type(error).__name__}: {error}")
    _open.append(session)
    return Reply(session.seen)


def called(request: CallRequest) -> Reply:
    """Call the function of the open case."""
    return _open[0].call(request)


def play_user_kernel(case: CheckCase) -> Trace:
    """A trace of what the user's kernel loads and stores in one forward pass in the interpreter.

    Raises InvalidProblem if it cannot be played.
    """
    close_sessions()
    kernel = user_kernel(case.kernel)
    try:
        session = Session(kernel, case)
        session.close()  # `play` watches the memory itself
        inputs = Handed(make_inputs(case.problem, DEVICE), case.layout).tensors
        return play(case.problem, inputs, lambda *given: session.forward(*given)["O"], kernel.name)
    except (Broken, Refused, UserKernelError) as error:
        raise InvalidProblem("kernel", kernel.name, f"it cannot be played: {error}") from error
