"""The user's own functions, which the command line names as `file.py:function`: loaded, called, and named.

Such a function has the signature of scaled_dot_product_attention. Only the worker process imports it, and
after our kernels, so that TRITON_INTERPRET is set before the file imports triton.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.check.case.cases import USERS, CheckCase
from kernels.check.case.limits import NAME, Limits
from kernels.check.subject.user_errors import Broken, UserKernelError, trace_text, user_frames
from kernels.check.subject.user_modules import UserModules, source_files, version_of
from kernels.device.no_gpu import answers_without_gpu, needs_gpu, refuse_libdevice
from kernels.problem import AttentionProblem, InvalidProblem

if TYPE_CHECKING:
    import torch

    Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[Any, Any]]
    """Query, key and value to what the function returns: O, and the second tensor or None."""

UserFunction = Callable[..., Any]
"""A function of query, key and value, and of those options of scaled_dot_product_attention that it knows."""
CAUSAL, SCALE = ("is_causal", "causal"), ("scale", "sm_scale", "softmax_scale")
"""Names that functions give these parameters."""
ASK_FOR_MASK = "Choose a mask that it takes, or declare in its CHECK that it takes this one (README)."


@dataclass(frozen=True)
class UserKernel:
    path: Path
    function: str
    given: str = field(default="", compare=False)
    """What the command line said, for a command that repeats it; "" in another process."""

    @classmethod
    def parse(cls, text: str) -> UserKernel:
        """From "my_file.py:my_function"; the path is made absolute. Raises InvalidProblem."""
        path, colon, function = text.rpartition(":")
        if not colon or not path.endswith(".py") or not function.isidentifier():
            accepted = "expected a Python file and a function in it, such as my_file.py:my_function"
            raise InvalidProblem("kernel", text, accepted)
        if not Path(path).is_file():
            raise InvalidProblem("kernel", text, f"there is no file {path} here", "Check the path.")
        return cls(Path(path).resolve(), function, text)

    @classmethod
    def unchecked(cls, text: str) -> UserKernel:
        """The reverse of `argument`. A missing file is refused when it is loaded."""
        path, _, function = text.rpartition(":")
        return cls(Path(path), function)

    @property
    def argument(self) -> str:
        """What names the function on another process's command line."""
        return f"{self.path}:{self.function}"

    @property
    def name(self) -> str:
        return f"{self.path.name}:{self.function}"

    @property
    def version(self) -> str:
        """The function, and what its file and those that it imports hold: it changes if one is saved."""
        return f"{self.argument} {version_of(self.path)}"

    @property
    def limits(self) -> Limits:
        """What its file declares by a plain dict: nothing of the user's is run for it."""
        exists = self.path.is_file()
        return Limits.in_source(self.path.read_text("utf-8", "replace")) if exists else Limits()

    def load(self) -> LoadedKernel:
        """Import the file, again if it has changed. Raises UserKernelError, which says what went wrong."""
        import kernels.device.runtime  # noqa: F401  (before the file can import triton)

        version = self.version
        if self not in _loaded or _loaded[self][0] != version:
            _loaded[self] = version, _load(self)
        return _loaded[self][1]


@dataclass(frozen=True)
class LoadedKernel:
    """The function, what its file declares of it, and the modules that it needs while it runs."""

    function: UserFunction
    limits: Limits
    modules: UserModules
    notes: list[str]
    """What was answered in the place of a GPU, and what else is to be said with each check."""
    options: list[torch.Tensor] = field(default_factory=list)
    """Tensors among the arguments of the last `attend`, such as a mask."""

    def attend(self, case: CheckCase) -> Attend:
        """The function with the case's mask and scale, on (batch, heads, length, head_dim) tensors.

        It is called within `running`. Raises InvalidProblem.
        """
        from kernels.device.runtime import DEVICE

        function, limits = self.function, self.limits
        arguments = call_arguments(function, case, DEVICE, limits)
        swaps = limits.layout == "blhd"
        self.options[:] = [each for each in arguments.values() if hasattr(each, "untyped_storage")]

        def attend(*tensors: torch.Tensor) -> tuple[Any, Any]:
            given = [tensor.transpose(1, 2) if swaps else tensor for tensor in tensors]
            if limits.strides != "any":
                every = limits.strides == "contiguous"
                given = [each.contiguous() if every or each.stride(-1) != 1 else each for each in given]
            result = function(*given, **arguments)
            several = isinstance(result, tuple | list) and bool(result)
            out, second = (*result, None)[:2] if several else (result, None)
            return out.transpose(1, 2) if swaps and getattr(out, "ndim", 0) == 4 else out, second

        return attend

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        with _surroundings(self.modules) as said:
            try:
                yield
            finally:
                self.notes.extend(words for words in said if words not in self.notes)


_loaded: dict[UserKernel, tuple[str, LoadedKernel]] = {}


@contextlib.contextmanager
def _surroundings(modules: UserModules) -> Iterator[list[str]]:
    from kernels.device.runtime import INTERPRETED

    with contextlib.ExitStack() as stack:
        said = stack.enter_context(answers_without_gpu()) if INTERPRETED else []
        stack.enter_context(modules.active())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", RuntimeWarning)
        yield said


INTERPRET = "TRITON_INTERPRET"
OTHER_CODE = f"Its source names {INTERPRET}: on a GPU other code may run than the code that was checked here."


def _load(kernel: UserKernel) -> LoadedKernel:
    from kernels.device.bfloat16 import make_bfloat16_exact
    from kernels.device.runtime import INTERPRETED

    if INTERPRETED:
        make_bfloat16_exact()
        refuse_libdevice()
    modules = UserModules(kernel.path)
    try:
        with _surroundings(modules) as said:
            module = modules.load()
    except BaseException as error:  # whatever the file raises at import, pytest.skip too, is told to the user
        trace = trace_text(error, user_frames(error, modules.holds))
        words = f"{type(error).__name__}: {error}"
        gpu = "needs a GPU: " if INTERPRETED and needs_gpu(words) else ""
        raise UserKernelError(f"{kernel.name} could not be imported: {gpu}{words}", trace) from error
    function = getattr(module, kernel.function, None)
    if not callable(function):
        own = {name: each for name, each in vars(module).items() if callable(each) and name[0] != "_"}
        names = [name for name in sorted(own) if getattr(own[name], "__module__", "") == module.__name__]
        has = f"; it has {' and '.join(names)}" if names else ""
        raise UserKernelError(f"{kernel.path.name} has no function {kernel.function}{has}")
    try:
        limits = Limits.declared(getattr(module, NAME, None))
    except ValueError as error:
        raise UserKernelError(f"{kernel.path.name}: {error}") from error
    if limits != kernel.limits:
        raise UserKernelError(f"{kernel.path.name}: {NAME} must be one dict of plain values, as it is read")
    if INTERPRETED and any(
        INTERPRET in each.read_text(errors="replace") for each in source_files(kernel.path)
    ):
        said.append(OTHER_CODE)
    return LoadedKernel(function, limits, modules, said)


def call_arguments(function: UserFunction, case: CheckCase, device: str, limits: Limits) -> dict[str, Any]:
    """Keyword arguments for the case's mask, heads and scale, as scaled_dot_product_attention takes them.

    A causal mask is `is_causal` if both lengths are the same or the file declares its alignment. Otherwise it
    is a bool `attn_mask` (q_len, kv_len), because torch aligns is_causal to the top left. A parameter of such
    a name without a default is always given. Raises InvalidProblem if the function has no such parameter.
    """
    from kernels.oracle.naive import whole_mask

    problem, (taken, required) = case.problem, _parameters(function, limits)
    causal, scale = (next((name for name in names if name in taken), names[0]) for names in (CAUSAL, SCALE))
    wanted: dict[str, Any] = {}
    if limits.gives_is_causal(problem):
        wanted[causal] = True
    elif problem.window and limits.window:
        wanted[limits.window] = problem.window
    elif problem.mask != "full":
        wanted["attn_mask"] = whole_mask(problem.rule, device=device)
    wanted |= _pattern_arguments(problem, taken, device)
    if problem.group_size > 1 and (limits.gqa is None or "enable_gqa" in taken):
        wanted["enable_gqa"] = True
    if case.scale is not None:
        wanted[scale] = case.scale
    for name in wanted:
        if name not in taken:
            lacks = f"it has no parameter {name}, which this problem needs"
            remedy = ASK_FOR_MASK if name == "attn_mask" else ""
            raise InvalidProblem("kernel", getattr(function, "__name__", "?"), lacks, remedy)
    always = {causal: False, scale: case.score_scale}
    return {name: value for name, value in always.items() if name in required} | wanted


PATTERN_NAMES = {
    "softcap": ("softcap", "logit_softcapping"),
    "slopes": ("alibi_slopes", "slopes"),
    "sinks": ("sinks", "s_aux"),
}
"""Names that functions give what changes the scores, by its field of Pattern."""


def _pattern_arguments(problem: AttentionProblem, taken: set[str], device: str) -> dict[str, Any]:
    import torch

    found: dict[str, Any] = {}
    for part, names in PATTERN_NAMES.items():
        if given := problem.pattern and getattr(problem.pattern, part):
            name = next((name for name in names if name in taken), names[0])
            found[name] = torch.tensor(given, device=device) if isinstance(given, tuple) else given
    return found


def _parameters(function: UserFunction, limits: Limits) -> tuple[set[str], set[str]]:
    """Names of the parameters that the function takes, and of those without a default."""
    anything = {CAUSAL[0], SCALE[0], "attn_mask", "enable_gqa", limits.window}
    anything |= {names[0] for names in PATTERN_NAMES.values()}
    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError):  # it does not tell
        return anything, set()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in found.values()):
        return anything, set()
    return {*found}, {name for name, each in found.items() if each.default is inspect.Parameter.empty}


def check_output(out: Any, query: torch.Tensor) -> torch.Tensor:
    """The output, if it is a tensor shaped and typed as `query`. Raises Broken."""
    import torch

    if type(out) is not torch.Tensor:
        raise Broken(f"it returned {type(out).__name__}; expected a plain tensor shaped as query")
    if out.layout != torch.strided or out.device != query.device:
        where = f"{out.layout} on {out.device}".removeprefix("torch.")
        raise Broken(f"it returned a tensor that is {where}; expected an ordinary one on {query.device}")
    if out.shape != query.shape or out.dtype != query.dtype:
        expected = f"expected {query.dtype} {tuple(query.shape)}, as query"
        raise Broken(f"it returned {out.dtype} {tuple(out.shape)}; {expected}")
    return out


def lse_of(second: Any, query: torch.Tensor, limits: Limits, notes: list[str]) -> torch.Tensor | None:
    """The second result of the function as lse (batch, q_heads, q_len); a note says if it is not one."""
    import torch

    if second is None or limits.lse == "none":
        return None
    shape = tuple(query.shape[:3])
    is_tensor = isinstance(second, torch.Tensor)
    if not is_tensor or second.numel() != math.prod(shape) or not second.is_floating_point():
        what = tuple(second.shape) if is_tensor else type(second).__name__
        note = f"Its second result, {what}, was not judged: lse would be a tensor {shape}."
        notes += [] if note in notes else [note]
        return None
    if limits.layout == "blhd" and tuple(second.shape) == (shape[0], shape[2], shape[1]) != shape:
        second = second.transpose(1, 2)
    lse = second.detach().float().reshape(shape)
    return lse * math.log(2) if limits.lse == "log2" else lse


_named: dict[str, UserKernel] = {}


def name_user_kernels(kernels: Sequence[UserKernel]) -> None:
    """Make the kernels known to this process: to the check, and as peers to the measurement."""
    from kernels.measure.peers import PEERS, Peer

    for name in USERS:
        _named.pop(name, None)
        PEERS.pop(name, None)
    for name, kernel in zip(USERS, kernels, strict=False):
        _named[name] = kernel
        PEERS[name] = Peer(kernel.name, ("cuda", "interpreter"), _peer_of(kernel), by_default=False)


def _peer_of(kernel: UserKernel) -> Callable[[AttentionProblem], Callable[..., torch.Tensor]]:
    def make(problem: AttentionProblem) -> Callable[..., torch.Tensor]:
        from kernels.check.subject.hosting import close_sessions

        close_sessions()  # the memory of what is measured is not watched
        loaded = kernel.load()
        attend = loaded.attend(CheckCase(problem))

        def measured(*tensors: torch.Tensor) -> torch.Tensor:
            with loaded.running():
                return attend(*tensors)[0]

        return measured

    return make


def user_kernel(name: str) -> UserKernel:
    """The kernel that this process's command line named. Raises InvalidProblem if it named none."""
    if name in _named:
        return _named[name]
    remedy = "Start with: streamlit run app.py -- --kernel my_file.py:fn"
    raise InvalidProblem("kernel", name, "no file was named on the command line", remedy)
