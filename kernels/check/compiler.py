"""Asks the process that compiles the user's kernels for a GPU, while the check of a case goes on."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from kernels.check.cases import CheckCase
from kernels.check.user_kernel import UserKernel
from kernels.device.backend import COMPILES_ONLY
from kernels.sanitizer.finding import Finding
from kernels.sanitizer.sites import line_of

KIND = "compile error"
LIMIT_S = 8.0
"""A check waits so long for the compiler after all else is done: a part of the time limit of a case."""
SILENCE_S = 60.0
"""A process that has answered nothing for so long is ended. Until then it goes on, and a later case gets what
it has compiled."""
TARGETS = "an A100 and for an H100"
"""Those of `compile_process`, in words."""


@dataclass(frozen=True)
class Compiled:
    """What the compiler said of the kernels of a case."""

    finding: Finding | None = None
    note: str = ""


class CompilerProcess:
    """One process for all cases: it is started by the first, and ends with this process."""

    def __init__(self) -> None:
        self._answers: queue.Queue[str] = queue.Queue()
        self._heard = time.monotonic()
        self._number = self._answered = 0
        """Of the last question, and of the last answer."""
        command = [sys.executable, "-m", "kernels.check.compile_process"]
        environment = os.environ | {COMPILES_ONLY: "1", "TRITON_INTERPRET": "0"}
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=none, env=environment, text=True
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put("")

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def ask(self, case: CheckCase, kernel: UserKernel) -> None:
        """Begin to compile what the function launches in a case."""
        assert self._process.stdin is not None
        if self._answered == self._number:
            self._heard = time.monotonic()  # it was idle
        self._number += 1
        question = {"number": self._number, "kernel": kernel.argument, "case": case.as_dict()}
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except OSError:
            self.close()

    def answer(self) -> Compiled:
        """What came of it, within LIMIT_S."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                line = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                if time.monotonic() - self._heard > SILENCE_S:
                    self.close()
                return Compiled(note=f"Not compiled for a GPU: it took longer than {LIMIT_S:g} s.")
            if not line:
                self.close()
                return Compiled(note="Not compiled for a GPU: the process of the compiler ended.")
            self._heard, answer = time.monotonic(), json.loads(line)
            self._answered = answer["number"]
            if answer["number"] == self._number:  # others are of checks that ended early
                return _compiled(answer)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def _compiled(answer: dict[str, Any]) -> Compiled:
    names = ", ".join(answer["kernels"])
    if error := answer["error"]:
        words = f"Triton's compiler refuses {error['kernel']} for {TARGETS}: {error['words'].rstrip('.')}"
        file, line = error["file"], error["line"]
        return Compiled(Finding(KIND, words, file, line, line_of(file, line)))
    if answer["not_done"]:
        return Compiled(note=f"Not compiled for a GPU: {answer['not_done'].rstrip('.')}.")
    if answer["left_out"]:
        return Compiled(note="Not compiled for a GPU: the compiler has had its time on earlier cases.")
    if not names:
        return Compiled()
    return Compiled(note=f"Compiled, without a GPU, for an A100 or an H100: {names}.")


_process: CompilerProcess | None = None


def ask_compiler(case: CheckCase, kernel: UserKernel) -> CompilerProcess:
    """The process, which has begun to compile what the function launches in the case."""
    global _process
    if _process is None or not _process.runs:
        _process = CompilerProcess()
    _process.ask(case, kernel)
    return _process
