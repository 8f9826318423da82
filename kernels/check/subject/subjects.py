"""How each checked kernel is called, forward and for its gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch

from kernels.algorithms import ALGORITHMS, ensure_runs, runner_of
from kernels.attention.flash_attention import flash_attention
from kernels.check.case.cases import KERNELS, OURS, PUBLIC_CALL, USERS, CheckCase
from kernels.check.subject.user_call import check_output, lse_of
from kernels.check.subject.user_errors import Broken, Refused, error_words, judged
from kernels.check.subject.user_kernel import user_kernel
from kernels.device.runtime import BACKEND
from kernels.measure.peers import PEERS
from kernels.oracle.rule import GRADIENTS
from kernels.problem import AttentionProblem, Band, InvalidProblem

ForwardCall = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor | None]]
"""Query, key and value to (O, lse or None)."""
GradientCall = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, ...]]
"""Query, key, value and dO to (dQ, dK, dV)."""
Guard = Callable[..., Any]
"""Phase, "forward" or "backward", a call and its tensors to what the call returns. Raises Refused, Broken, or
an error that ends the job: a lack of memory, or a lost CUDA context."""
Judge = Callable[[BaseException, str, bool], BaseException]
"""An error, its phase and whether a kernel was launched, to what the error means for the check."""
Result = TypeVar("Result")
MASK_INSTEAD = (
    "is_causal is not checked with unequal lengths: the mask came as attn_mask. If the function aligns "
    'is_causal, its file may say so: "causal": "bottom_right" or "top_left" in its CHECK (README).'
)
"""Of a causal case with unequal lengths, if the file does not say how is_causal is aligned."""


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
        return {name: gradient.clone() for name, gradient in zip(self.leaves, found, strict=True)}

    def _derivatives(self, d_out: torch.Tensor, keep: bool) -> tuple[torch.Tensor, ...]:
        if not self.out.requires_grad:
            raise Refused("it has no gradients: its output does not depend on Q, K and V for autograd")
        leaves = tuple(self.leaves.values())
        results = torch.autograd.grad(self.out, leaves, d_out, allow_unused=True, retain_graph=keep)
        return tuple(
            torch.zeros_like(leaf) if gradient is None else gradient
            for gradient, leaf in zip(results, leaves, strict=True)
        )


AttachedCall = Callable[..., Attached]
"""Query, key and value, and `learning`, names of the gradients that are wanted, to the call's graph."""


@dataclass(frozen=True)
class Subject:
    """One kernel on one case. `band` is the mask that is right for it, `notes` what else is to be said."""

    forward: ForwardCall
    gradients: GradientCall | None
    band: Band
    notes: list[str] = field(default_factory=list)
    trained: dict[str, torch.Tensor] = field(default_factory=dict)
    """O of the last call with inputs that require gradients, if it is known."""
    attached: AttachedCall | None = None
    """Of a user's function with gradients: a call that keeps its graph."""
    of_case: str = ""
    """What is to be said of this case alone."""


def make_subject(case: CheckCase, launches: Sequence[int] = ()) -> Subject:
    """The kernel with the case's mask and tiles. `launches` grows by one for each launch in the interpreter.

    Raises Refused, or UserKernelError if the user's file cannot be imported.
    """
    name, problem = case.kernel, case.problem
    if name in USERS:
        return _user(case, launches)
    if case.scale is not None and name != PUBLIC_CALL:
        raise Refused("only your own kernel and flash_attention take a scale here")
    if BACKEND not in KERNELS[name].backends:
        accepted = ", ".join(key for key, kernel in KERNELS.items() if BACKEND in kernel.backends)
        raise InvalidProblem("kernel", name, f"expected one of {accepted} on this device")
    guard = _guard(_judge_of(name))
    if name in ALGORITHMS:
        return _algorithm(name, problem, guard)
    attend, forward = _public_call(case, guard) if name == PUBLIC_CALL else _peer(name, problem, guard)
    gradients = _by_autograd(_graph(attend, guard)) if KERNELS[name].gradients else None
    return Subject(forward, gradients, problem.band)


def _algorithm(name: str, problem: AttentionProblem, guard: Guard) -> Subject:
    """An algorithm with its own tiles, or with the problem's. Raises Refused if it cannot run."""
    own = ALGORITHMS[name].with_own_tiles(problem)
    try:
        ensure_runs(ALGORITHMS[name], own)
    except InvalidProblem as error:
        raise Refused(error.reason.rstrip(".")) from error
    runner = runner_of(name)
    notes = [] if own == problem else [f"It runs with its own tiles, {own.block_m} x {own.block_n}."]

    def forward(*tensors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        return guard("forward", runner.forward, own, *tensors)

    def gradients(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return guard("backward", runner.gradients, own, *tensors)

    return Subject(forward, gradients if KERNELS[name].gradients else None, problem.band, notes)


def _public_call(case: CheckCase, guard: Guard) -> tuple[Callable[..., torch.Tensor], ForwardCall]:
    problem = case.problem
    window = (problem.window_left, problem.window_right) if problem.mask == "window" else None
    attend: Callable[..., Any] = partial(
        flash_attention, is_causal=problem.is_causal, window=window, scale=case.scale, enable_gqa=True
    )

    def forward(*tensors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return guard("forward", partial(attend, return_lse=True), *tensors)

    return attend, forward


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


def _graph(attend: Callable[..., torch.Tensor], guard: Guard) -> AttachedCall:
    def attached(*tensors: torch.Tensor, learning: Sequence[str] = GRADIENTS) -> Attached:
        leaves = {name: tensor.detach() for name, tensor in zip(GRADIENTS, tensors, strict=True)}
        wanted = {name: leaves[name].requires_grad_() for name in learning}
        out = check_output(guard("forward", attend, *leaves.values()), tensors[0])
        return Attached(out, wanted, guard)

    return attached


def _by_autograd(attached: AttachedCall, trained: dict[str, torch.Tensor] | None = None) -> GradientCall:
    """The gradients of a call. `trained` then holds its O."""

    def gradients(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        graph = attached(*tensors[:3])
        if trained is not None:
            trained["O"] = graph.out.detach().clone()
        return tuple(graph.gradients(tensors[3]).values())

    return gradients


def _user(case: CheckCase, launches: Sequence[int]) -> Subject:
    """The user's function. What its errors mean is said by `user_errors.judged`."""
    loaded = user_kernel(case.kernel).load()
    limits = loaded.limits
    if outside := limits.excludes(case):
        raise Refused(outside)
    try:
        attend = loaded.attend(case)
    except InvalidProblem as error:
        raise Refused(error.reason) from error

    def judge(error: BaseException, phase: str, launched: bool) -> BaseException:
        holds, interpreted = loaded.modules.holds, BACKEND == "interpreter"
        return judged(error, holds, phase=phase, launched=launched, interpreted=interpreted)

    guard = _guard(judge, loaded.running, launches)

    def forward(*tensors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        out, second = guard("forward", attend, *tensors)
        return check_output(out, tensors[0]).detach(), lse_of(second, tensors[0], limits, loaded.said)

    has_tensor = case.problem.is_causal and not limits.gives_is_causal(case.problem)
    subject = Subject(
        forward, None, limits.band(case.problem), loaded.said, of_case=MASK_INSTEAD if has_tensor else ""
    )
    if limits.forward_only:
        return subject
    attached = _graph(lambda *tensors: attend(*tensors)[0], guard)
    return replace(subject, gradients=_by_autograd(attached, subject.trained), attached=attached)


def _judge_of(name: str) -> Judge:
    """What an error of a kernel that is not the user's means."""

    def judge(error: BaseException, phase: str, launched: bool) -> BaseException:
        words = error_words(error)
        if name in OURS and not isinstance(error, InvalidProblem | NotImplementedError):
            return Broken(f"it raised {words}")
        return Refused(words)

    return judge


def _guard(
    judge: Judge,
    around: Callable[[], AbstractContextManager[None]] = nullcontext,
    launches: Sequence[int] = (),
) -> Guard:
    def guarded(phase: str, call: Callable[..., Result], *given: Any) -> Result:
        before = len(launches)
        try:
            with _quiet(), around():
                return call(*given)
        except (Refused, Broken, MemoryError, torch.OutOfMemoryError):
            raise
        except BaseException as error:  # any end of a checked kernel is a result of its check
            if "CUDA error" in str(error) or "can't allocate memory" in str(error):
                raise
            raise judge(error, phase, phase == "backward" or len(launches) > before) from error

    return guarded


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence NumPy's warnings in the interpreter: a GPU does not warn about infinities either."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.filterwarnings("ignore", "Lower right causal bias", UserWarning)
        yield
