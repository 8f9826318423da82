"""How each checked kernel is called, forward and for its gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import numpy as np
import torch

from kernels.algorithms import ALGORITHMS, ensure_runs, runner_of
from kernels.attention.flash_attention import flash_attention
from kernels.check.cases import KERNELS, OURS, PUBLIC_CALL, USERS, CheckCase
from kernels.check.limits import Limits
from kernels.check.user_call import attend_with, check_output, lse_of
from kernels.check.user_errors import Broken, Refused, error_words, judged
from kernels.check.user_kernel import user_kernel
from kernels.device.runtime import BACKEND
from kernels.measure.peers import PEERS
from kernels.oracle.rule import GRADIENTS
from kernels.problem import AttentionProblem, Band, InvalidProblem

if TYPE_CHECKING:
    from kernels.measure.peers import Attention

ForwardCall = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor | None]]
"""Query, key and value to (O, lse or None)."""
GradientCall = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, ...]]
"""Query, key, value and dO to (dQ, dK, dV)."""
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Attached:
    """One call whose graph is kept: O, and the inputs among Q, K and V that require gradients."""

    out: torch.Tensor
    leaves: dict[str, torch.Tensor]
    """By the name of their gradients."""
    guard: Callable[[Callable[[], tuple[torch.Tensor, ...]]], tuple[torch.Tensor, ...]]

    def gradients(self, d_out: torch.Tensor, *, keep: bool = False) -> dict[str, torch.Tensor]:
        """Gradients of the leaves. With `keep` they can be asked for again. Raises Broken and Refused."""
        leaves = list(self.leaves.values())
        found = self.guard(lambda: _derivatives(self.out, leaves, d_out, keep))
        return {name: gradient.clone() for name, gradient in zip(self.leaves, found, strict=True)}


AttachedCall = Callable[..., Attached]
"""Query, key and value, and `learning`, names of the gradients that are wanted, to the call's graph."""
MASK_INSTEAD = (
    "is_causal is not checked with unequal lengths: the mask came as attn_mask. If the function aligns "
    'is_causal, its file may say so: "causal": "bottom_right" or "top_left" in its CHECK (README).'
)
"""Of a causal case with unequal lengths, if the file does not say how is_causal is aligned."""


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
    if name in ALGORITHMS:
        forward, gradients = _algorithm(name, problem)
    elif name == PUBLIC_CALL:
        forward, gradients = _public_call(problem, case.scale)
    else:
        forward, gradients = _peer(name, problem)
    guarded = _guarded(name, gradients) if KERNELS[name].gradients else None
    return Subject(_guarded(name, forward), guarded, problem.band, _notes(name, problem))


def _notes(name: str, problem: AttentionProblem) -> list[str]:
    """That an algorithm runs with its own tiles, if those of the problem differ."""
    own = ALGORITHMS[name].with_own_tiles(problem) if name in ALGORITHMS else problem
    return [] if own == problem else [f"It runs with its own tiles, {own.block_m} x {own.block_n}."]


def _algorithm(name: str, problem: AttentionProblem) -> tuple[ForwardCall, GradientCall]:
    """An algorithm with its own tiles, or with the problem's. Raises Refused if it cannot run."""
    problem = ALGORITHMS[name].with_own_tiles(problem)
    try:
        ensure_runs(ALGORITHMS[name], problem)
    except InvalidProblem as error:
        raise Refused(str(error).partition("is not accepted: ")[2].rstrip(".")) from error
    runner = runner_of(name)
    return (
        lambda query, key, value: runner.forward(problem, query, key, value),
        lambda query, key, value, d_out: runner.gradients(problem, query, key, value, d_out),
    )


def _public_call(problem: AttentionProblem, scale: float | None) -> tuple[ForwardCall, GradientCall]:
    window = (problem.window_left, problem.window_right) if problem.mask == "window" else None
    causal = problem.is_causal

    def forward(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return flash_attention(
            query, key, value, is_causal=causal, window=window, scale=scale, enable_gqa=True, return_lse=True
        )

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return flash_attention(
            query, key, value, is_causal=causal, window=window, scale=scale, enable_gqa=True
        )

    return forward, _by_autograd(attend)


def _peer(name: str, problem: AttentionProblem) -> tuple[ForwardCall, GradientCall]:
    try:
        attend = PEERS[name].make(problem)
    except (InvalidProblem, NotImplementedError) as error:
        raise Refused(str(error)) from error

    def forward(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, None]:
        return check_output(attend(query, key, value), query).detach(), None

    return forward, _by_autograd(attend)


def _by_autograd(attend: Attention) -> GradientCall:
    def gradients(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, d_out: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        leaves = [tensor.detach().requires_grad_() for tensor in (query, key, value)]
        return _derivatives(attend(*leaves), leaves, d_out)

    return gradients


def _derivatives(
    out: torch.Tensor, leaves: list[torch.Tensor], d_out: torch.Tensor, keep: bool = False
) -> tuple[torch.Tensor, ...]:
    if not out.requires_grad:
        raise Refused("it has no gradients: its output does not depend on Q, K and V for autograd")
    results = torch.autograd.grad(out, leaves, d_out, allow_unused=True, retain_graph=keep)
    return tuple(
        torch.zeros_like(leaf) if gradient is None else gradient
        for gradient, leaf in zip(results, leaves, strict=True)
    )


def _user(case: CheckCase, launches: Sequence[int]) -> Subject:
    """The user's function. What its errors mean is said by `user_errors.judged`."""
    loaded = user_kernel(case.kernel).load()
    if outside := loaded.limits.excludes(case):
        raise Refused(outside)
    try:
        attend = attend_with(loaded, case)
    except InvalidProblem as error:
        raise Refused(str(error).partition("is not accepted: ")[2]) from error
    notes, trained = loaded.said, dict[str, torch.Tensor]()

    def guarded(phase: str, call: Callable[..., Result], *tensors: torch.Tensor) -> Result:
        before = len(launches)
        try:
            with _quiet(), loaded.running():
                return call(*tensors)
        except (Refused, Broken, MemoryError, torch.OutOfMemoryError):
            raise
        except BaseException as error:  # any end of the user's code is a result of its check
            if "CUDA error" in str(error) or "can't allocate memory" in str(error):
                raise
            launched = phase == "backward" or len(launches) > before
            holds, interpreted = loaded.modules.holds, BACKEND == "interpreter"
            raise judged(error, holds, phase=phase, launched=launched, interpreted=interpreted) from error

    def forward(*tensors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        out, second = guarded("forward", attend, *tensors)
        return check_output(out, tensors[0]).detach(), lse_of(second, tensors[0], loaded.limits, notes)

    def gradients(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        leaves, d_out = [tensor.detach().requires_grad_() for tensor in tensors[:3]], tensors[3]
        out = check_output(guarded("forward", attend, *leaves)[0], leaves[0])
        trained["O"] = out.detach().clone()
        return guarded("backward", lambda: _derivatives(out, leaves, d_out))

    def attached(*tensors: torch.Tensor, learning: Sequence[str] = GRADIENTS) -> Attached:
        leaves = {name: tensor.detach() for name, tensor in zip(GRADIENTS, tensors, strict=True)}
        wanted = {name: leaves[name].requires_grad_() for name in learning}
        out = check_output(guarded("forward", attend, *leaves.values())[0], tensors[0])
        return Attached(out, wanted, lambda derive: guarded("backward", derive))

    band, of_case = loaded.limits.band(case.problem), _of_case(case, loaded.limits)
    if loaded.limits.forward_only:
        return Subject(forward, None, band, notes, trained, of_case=of_case)
    return Subject(forward, gradients, band, notes, trained, attached, of_case)


def _of_case(case: CheckCase, limits: Limits) -> str:
    """That the mask of the case comes as a tensor, if the file may say that it need not."""
    has_tensor = case.problem.is_causal and not limits.gives_is_causal(case.problem)
    return MASK_INSTEAD if has_tensor else ""


def _guarded(name: str, call: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The call, which raises Refused, Broken, or an error that ends the job.

    A lack of memory and a lost CUDA context end the job.
    """

    def guarded(*tensors: Parameters.args, **options: Parameters.kwargs) -> Result:
        try:
            with _quiet():
                return call(*tensors, **options)
        except (Refused, Broken, MemoryError, torch.OutOfMemoryError):
            raise
        except (InvalidProblem, NotImplementedError) as error:
            raise Refused(error_words(error)) from error
        except Exception as error:  # any failure of a checked kernel is a result of its check
            if "CUDA error" in str(error) or "can't allocate memory" in str(error):
                raise
            words = error_words(error)
            raise (Broken(f"it raised {words}") if name in OURS else Refused(words)) from error

    return guarded


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence NumPy's warnings in the interpreter: a GPU does not warn about infinities either."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.filterwarnings("ignore", "Lower right causal bias", UserWarning)
        yield
