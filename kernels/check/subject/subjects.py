"""How each checked kernel is called, forward and for its gradients."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch

from kernels.algorithms import ALGORITHMS, ensure_runs, runner_of
from kernels.attention.flash_attention import flash_attention
from kernels.check.case.cases import KERNELS, OURS, PUBLIC_CALL, USERS, CheckCase
from kernels.check.subject.hosted import Controls, Graph, Hosted, Seen
from kernels.check.subject.user_errors import Broken, Refused, error_words, judged
from kernels.check.subject.user_kernel import LoadedKernel, check_output
from kernels.device.runtime import BACKEND
from kernels.measure.peers import PEERS, call_options
from kernels.oracle.rule import GRADIENTS
from kernels.problem import AttentionProblem, InvalidProblem, Rule

ForwardCall = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor | None]]
"""Query, key and value to (O, lse or None)."""
GradientCall = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, ...]]
"""Query, key, value and dO to (dQ, dK, dV)."""
Result = TypeVar("Result")
MASK_INSTEAD = (
    "is_causal is not checked with unequal lengths: the mask came as attn_mask. If the function aligns "
    'is_causal, its file may say so: "causal": "bottom_right" or "top_left" in its CHECK (README).'
)
"""Of a causal case with unequal lengths, if the file does not say how is_causal is aligned."""


@dataclass(frozen=True)
class Guard:
    """Calls a kernel, and turns what it raises into Refused, Broken, or an error that ends the job.

    The last is a lack of memory or a lost CUDA context.
    """

    name: str
    loaded: LoadedKernel | None = None
    """Of a user's kernel."""
    launches: Sequence[int] = ()

    def __call__(self, phase: str, call: Callable[..., Result], *given: Any) -> Result:
        """What the call returns. `phase` is "forward" or "backward"."""
        before = len(self.launches)
        try:
            with _quiet(), self.loaded.running() if self.loaded else nullcontext():
                return call(*given)
        except (Refused, Broken, MemoryError, torch.OutOfMemoryError):
            raise
        except BaseException as error:  # any end of a checked kernel is a result of its check
            if "CUDA error" in str(error) or "can't allocate memory" in str(error):
                raise
            launched = phase == "backward" or len(self.launches) > before
            raise self._meaning(error, phase, launched) from error

    def _meaning(self, error: BaseException, phase: str, launched: bool) -> Refused | Broken:
        if self.loaded:
            holds, interpreted = self.loaded.modules.holds, BACKEND == "interpreter"
            return judged(error, holds, phase=phase, launched=launched, interpreted=interpreted)
        if self.name in OURS and not isinstance(error, InvalidProblem | NotImplementedError):
            return Broken(f"it raised {error_words(error)}")
        return Refused(error_words(error))


@dataclass(frozen=True)
class Attached:
    """One call whose graph is kept: O, and the inputs among Q, K and V that require gradients."""

    out: torch.Tensor
    leaves: dict[str, torch.Tensor]
    """By the name of their gradients."""
    guard: Guard

    def gradients(self, d_out: torch.Tensor, *, keep: bool = False) -> dict[str, torch.Tensor]:
        """Gradients of the leaves. With `keep` they can be asked for again. Raises Broken and Refused."""
        found = self.guard("backward", self._derivatives, d_out, keep)
        return dict(zip(self.leaves, found, strict=True))

    def _derivatives(self, d_out: torch.Tensor, keep: bool) -> tuple[torch.Tensor, ...]:
        if not self.out.requires_grad:
            raise Refused("it has no gradients: its output does not depend on Q, K and V for autograd")
        leaves = tuple(self.leaves.values())
        return torch.autograd.grad(self.out, leaves, d_out, retain_graph=keep, materialize_grads=True)


AttachedCall = Callable[..., Attached | Graph]
"""Query, key and value, and `learning`, names of the gradients that are wanted, to the call's graph."""


def attached_call(attend: Callable[..., torch.Tensor], guard: Guard) -> Callable[..., Attached]:
    """A function of Q, K and V, and of what is to be learned, that keeps the graph of its call."""

    def attached(*tensors: torch.Tensor, learning: Sequence[str] = GRADIENTS) -> Attached:
        leaves = {name: tensor.detach() for name, tensor in zip(GRADIENTS, tensors, strict=True)}
        wanted = {name: leaves[name].requires_grad_() for name in learning}
        out = check_output(guard("forward", attend, *leaves.values()), tensors[0])
        return Attached(out, wanted, guard)

    return attached


@dataclass(frozen=True)
class Subject:
    """One kernel on one case. `band` is the mask that is right for it, `of_case` what else is to be said.

    It has gradients by a function of its own (`gradients`), or by autograd (`attached`), or none.
    """

    forward: ForwardCall
    band: Rule
    gradients: GradientCall | None = None
    attached: AttachedCall | None = None
    of_case: Sequence[str] = ()
    hosted: Hosted | None = None
    """Of a user's function."""
    controls: Controls = field(default_factory=Controls)
    """How a user's function is called from now on."""

    @property
    def seen(self) -> Seen:
        """What was seen of a user's function so far."""
        return self.hosted.seen if self.hosted else Seen()

    @property
    def notes(self) -> list[str]:
        return [*self.seen.notes, *self.of_case]


def make_subject(case: CheckCase) -> Subject:
    """The kernel with the case's mask and tiles.

    Raises Refused, or UserKernelError if the user's file cannot be imported.
    """
    name, problem = case.kernel, case.problem
    if name in USERS:
        return _user(case)
    if case.layout == "far":
        raise Refused("only your own kernel takes the layout far here")
    if case.scale is not None and name != PUBLIC_CALL:
        raise Refused("only your own kernel and flash_attention take a scale here")
    if BACKEND not in KERNELS[name].backends:
        accepted = ", ".join(key for key, kernel in KERNELS.items() if BACKEND in kernel.backends)
        raise InvalidProblem("kernel", name, f"expected one of {accepted} on this device")
    guard = Guard(name)
    if name in ALGORITHMS:
        return _algorithm(name, problem, guard)
    attend, forward = _public_call(case, guard) if name == PUBLIC_CALL else _peer(name, problem, guard)
    return Subject(
        forward, problem.rule, attached=attached_call(attend, guard) if KERNELS[name].gradients else None
    )


def _algorithm(name: str, problem: AttentionProblem, guard: Guard) -> Subject:
    """An algorithm with its own tiles, or with the problem's. Raises Refused if it cannot run."""
    own = ALGORITHMS[name].with_own_tiles(problem)
    try:
        ensure_runs(ALGORITHMS[name], own)
    except InvalidProblem as error:
        raise Refused(error.reason.rstrip(".")) from error
    runner = runner_of(name)
    notes = [] if own == problem else [f"It runs with its own tiles, {own.block_m} x {own.block_n}."]
    forward = partial(guard, "forward", runner.forward, own)
    gradients = partial(guard, "backward", runner.gradients, own) if KERNELS[name].gradients else None
    return Subject(forward, problem.rule, gradients, of_case=notes)


def _public_call(case: CheckCase, guard: Guard) -> tuple[Callable[..., torch.Tensor], ForwardCall]:
    options = call_options(case.problem) | {"scale": case.scale}
    attend: Callable[..., Any] = partial(flash_attention, **options)
    return attend, partial(guard, "forward", partial(attend, return_lse=True))


def _peer(
    name: str, problem: AttentionProblem, guard: Guard
) -> tuple[Callable[..., torch.Tensor], ForwardCall]:
    try:
        attend = PEERS[name].make(problem)
    except (InvalidProblem, NotImplementedError) as error:
        raise Refused(str(error)) from error

    def forward(*tensors: torch.Tensor) -> tuple[torch.Tensor, None]:
        return check_output(guard("forward", attend, *tensors), tensors[0]).detach(), None

    return attend, forward


def _user(case: CheckCase) -> Subject:
    """The user's function, in the process that imports it."""
    hosted = Hosted(case)
    problem, limits = case.problem, hosted.limits
    has_tensor = problem.is_causal and not limits.gives_is_causal(problem)
    of_case = [MASK_INSTEAD] if has_tensor else []
    attached = None if limits.forward_only else hosted.attached
    return Subject(hosted.forward, limits.band(problem), None, attached, of_case, hosted, hosted.controls)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence NumPy's warnings in the interpreter: a GPU does not warn about infinities either."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.filterwarnings("ignore", "Lower right causal bias", UserWarning)
        yield
