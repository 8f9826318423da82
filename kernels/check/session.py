"""A session of the check: the cases of some kernels, run one by one in a worker of their own.

The command line and the plugin of pytest share it: what is asked for (`Plan`), and its cases (`Session`).
"""

import argparse
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kernels.check import requests
from kernels.check.case import cases, fit, options
from kernels.check.case.battery import battery
from kernels.check.case.limits import Limits
from kernels.check.report import machine
from kernels.check.report import report as reports
from kernels.check.result import NOT_RUN, UNUSABLE, CheckResult
from kernels.check.subject.user_kernel import UserKernel
from kernels.device.backend import triton_missing, utc_now
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.worker.client import START_LIMIT_S, WorkerClient
from kernels.worker.failures import JobFailure, TimedOut

NAMED_KERNELS = [name for name in cases.KERNELS if name not in cases.USERS]
CRASHES = 3
"""If so many cases in a row end the process alike, the kernel's other cases are not run."""


@dataclass(frozen=True)
class Plan:
    """What was asked for, as far as it is known before the worker has said which device it has."""

    arguments: argparse.Namespace
    command: str
    named: dict[str, UserKernel | None]
    """What is checked, by names of KERNELS; with the user's functions."""
    hashes: dict[str, str]
    """SHA-256 of the files of the user's functions, by the same names."""

    @classmethod
    def of(cls, arguments: argparse.Namespace, command: str) -> "Plan":
        """Raises InvalidProblem or OSError for a call that no device could answer."""
        named = _named_kernels(arguments)
        _fill_in(arguments)
        files = {name: kernel.path.read_bytes() for name, kernel in named.items() if kernel}
        hashes = {name: hashlib.sha256(text).hexdigest() for name, text in files.items()}
        plan = cls(arguments, command, named, hashes)
        plan.cases_of(next(iter(named)), "cuda")
        return plan

    @property
    def own(self) -> dict[str, UserKernel]:
        return {name: kernel for name, kernel in self.named.items() if kernel}

    @property
    def words(self) -> str:
        """What is run, and why it is not the battery if it is not."""
        if self.arguments.battery:
            return f"The battery, seed {self.arguments.seed}."
        given = ", ".join(map(options.option, self.arguments.given))
        return f"Not the battery, but the cases that are asked for by {given}."

    def battery(self, kernel: str, backend: str = "cuda") -> dict[cases.CheckCase, str]:
        """The battery of one kernel on "cuda" or "interpreter", fitted to what its file declares."""
        arguments, limits = self.arguments, self.own[kernel].limits if kernel in self.own else Limits()
        base = cases.CheckCase(AttentionProblem(), kernel, not arguments.forward, arguments.repeats)
        base = replace(base, requires_kernel=arguments.require_kernel)
        return battery(base, arguments.seed, limits, backend)

    def cases_of(self, kernel: str, backend: str) -> tuple[cases.CheckCase, ...]:
        """The cases of one kernel on "cuda" or "interpreter". Raises InvalidProblem."""
        arguments = self.arguments
        fields = {name: getattr(arguments, name) for name in options.OF_PROBLEM}
        given = {name: value for name, value in fields.items() if value is not None}
        case = cases.CheckCase(
            AttentionProblem(**{"kv_heads": arguments.q_heads} | given),
            kernel,
            gradients=not arguments.forward,
            repeats=arguments.repeats,
            layout=arguments.layout,
            scale=arguments.scale,
            requires_kernel=arguments.require_kernel,
        )
        if arguments.battery:
            return tuple(self.battery(kernel, backend))
        shapes = None if arguments.shapes == "trusted" else cases.parse_shapes(arguments.shapes)
        return cases.grid_cases(case, shapes, arguments.head_dim, arguments.dtype, arguments.mask)


def _named_kernels(arguments: argparse.Namespace) -> dict[str, UserKernel | None]:
    """What is checked: names of KERNELS, with the user's functions. Raises InvalidProblem."""
    named: dict[str, UserKernel | None] = {}
    free = list(cases.USERS)
    for text in arguments.kernel or [cases.PUBLIC_CALL]:
        if text in NAMED_KERNELS:
            named[text] = None
        elif ".py" not in text:
            accepted = f"expected one of {', '.join(NAMED_KERNELS)}, or file.py:function"
            raise InvalidProblem("kernel", text, accepted)
        elif not free:
            raise InvalidProblem("kernel", text, f"expected at most {len(cases.USERS)} kernels of your own")
        else:
            named[free.pop(0)] = UserKernel.parse(text)
    return named


def _fill_in(arguments: argparse.Namespace) -> None:
    """Give the options of cases their defaults. If none was given, that asks for the battery."""
    values = vars(arguments)
    given = [name for name in options.CASE_OPTIONS if values[name] is not None]
    for name, (default, read, _) in options.CASE_OPTIONS.items():
        if name not in given and default:
            values[name] = read(default)
    values["battery"] = not {*given} - {"seed"}
    values["given"] = given
    if values["repeats"] is None:
        values["repeats"] = 2 if values["battery"] else options.REPEATS


Say = Callable[..., None]
"""Called with lines."""


class Session:
    """A worker, and what came of the cases so far."""

    def __init__(self, plan: Plan) -> None:
        """Raises JobFailure if the worker does not start, InvalidProblem for a kernel of other devices."""
        self.plan, self.found = plan, list[CheckResult]()
        self._deadline = time.monotonic() + plan.arguments.total_limit
        self._limit_words = f"the total limit of {plan.arguments.total_limit:g} s was over"
        self._client = WorkerClient(kernels=[kernel.argument for kernel in plan.own.values()])
        try:
            missing = triton_missing()
            if missing or not self._client.wait_ready(START_LIMIT_S) or self._client.device is None:
                why = missing or self._client.start_failure or "it did not start"
                raise JobFailure(f"nothing can be judged without python -m kernels.worker: {why}")
            self._device = self._client.device
            self.cases = [self._cases(kernel) for kernel in plan.named]
        except BaseException:
            self._client.close()
            raise

    def _cases(self, kernel: str) -> tuple[cases.CheckCase, ...]:
        backend = self._device.backend
        if kernel in NAMED_KERNELS and backend not in cases.KERNELS[kernel].backends:
            accepted = f"expected one of {', '.join(cases.kernels_on(backend, 0))} on this device"
            raise InvalidProblem("kernel", kernel, accepted)
        return self.plan.cases_of(kernel, backend)

    def check(self, case: cases.CheckCase, say: Say, detailed: bool = True) -> CheckResult:
        own = self.plan.own.get(case.kernel)
        name, version = (own.name, own.version) if own else ("", "")
        if why := self._over(case.kernel):
            result = CheckResult(case, case.label(name), self._device, utc_now(), 0.0, ended=NOT_RUN)
            result = replace(result, stopped=f"{NOT_RUN}: {why}")
        else:
            job = self._client.submit(requests.CheckRequest(case, version), self._time_left())
            job.wait()
            result = requests.checked_result(job, case, name, self._device)
            if result.ended == TimedOut.__name__ and not self._time_left():
                result = replace(result, stopped=f"it was under way when {self._limit_words}")
        self.found.append(result)
        say(*reports.result_lines(result, detailed))
        return result

    def fitted(self, results: Sequence[CheckResult], say: Say) -> list[CheckResult]:
        """The results of one kernel, with those of fitted cases for cases of the battery that it refused."""
        results = list(results)
        for _ in range(fit.ROUNDS if self.plan.arguments.battery else 0):
            tries = fit.second_tries(results)
            if not tries or self._over(results[0].case.kernel):
                break
            say(f"Refused cases, fitted to what it takes: {len(tries)}.")
            for place, case in tries.items():
                self.found = [result for result in self.found if result is not results[place]]
                results[place] = self.check(case, say, detailed=False)
        return results

    def _time_left(self) -> float:
        """Seconds that the next job may take."""
        return min(self.plan.arguments.time_limit, max(0.0, self._deadline - time.monotonic()))

    def _over(self, kernel: str) -> str:
        """Why no further case of the kernel is begun; "" if one is."""
        begun = [result for result in self.found if result.ended != NOT_RUN]
        last = [result.ended for result in begun if result.case.kernel == kernel][-CRASHES:]
        alike = last[0] if len(last) == CRASHES and len({*last}) == 1 else ""
        reasons = {
            "a case before it fails": self.plan.arguments.fail_fast
            and any(result.verdict == "fail" for result in begun),
            self._limit_words: not self._time_left(),
            "the kernel's file cannot be used": UNUSABLE in last,
            f"{CRASHES} cases in a row ended alike ({alike})": alike,
        }
        return next((words for words, applies in reasons.items() if applies), "")

    def close(self) -> None:
        """End the worker, and write the reports that were asked for, whatever happened to the cases."""
        self._client.close()
        results, plan = self.found, self.plan
        texts: dict[str, Callable[[], str]] = {
            "json": lambda: machine.to_json(results, plan.command, plan.hashes),
            "junit": lambda: machine.to_junit(results),
            "sarif": lambda: machine.to_sarif(results, plan.own),
        }
        for name, text in texts.items():
            if results and (path := getattr(plan.arguments, name)):
                path.write_text(text(), encoding="utf-8")
