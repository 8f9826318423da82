"""Time and peak memory of attention implementations on this machine's device: `python -m kernels.measure`."""

import argparse
import itertools
import sys

from kernels.measure.document import Document
from kernels.measure.measure import measure
from kernels.measure.measurement import report, shape_words
from kernels.measure.peers import PEERS
from kernels.measure.series import SweepView
from kernels.problem import DTYPES, AttentionProblem, InvalidProblem
from kernels.tool_arguments import numbers, report_path, words


def argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kernels.measure",
        description="Time and peak memory of attention implementations on this machine's device. "
        "Options that take several values, comma separated, are measured in every combination.",
    )
    add = parser.add_argument
    add("--length", type=numbers, default=[1024], help="sequence lengths, comma separated (default 1024)")
    add("--kv-len", type=int, help="length of key and value (default: --length)")
    add("--head-dim", type=numbers, default=[64], help="comma separated (default 64)")
    add("--mask", type=words, default=["full"], help="full, causal or both: full,causal (default full)")
    default = "float16, but float32 on a CPU, which emulates products of shorter types"
    add("--dtype", type=words, help=f"some of {','.join(DTYPES)} (default {default})")
    add("--batch", type=numbers, default=[1], help="comma separated (default 1)")
    add("--tokens", type=int, help="tokens per launch, instead of --batch: batch = tokens / length")
    add("--q-heads", type=int, default=16, help="query heads (default 16)")
    add("--width", type=int, help="heads x head_dim, instead of --q-heads: heads = width / head_dim")
    add("--kv-heads", type=int, help="key and value heads (default: as many as query heads)")
    add("--block-m", type=int, default=128, help="rows of a query tile of the peer flash2 (default 128)")
    add("--block-n", type=int, default=64, help="rows of a key tile of the peer flash2 (default 64)")
    add("--peers", type=words, help=f"some of {','.join(PEERS)} (default: those that the device has)")
    add("--directions", type=words, default=["forward"], help="forward, backward or forward,backward")
    add("--budget", type=float, help="seconds of timed calls per peer (default 1)")
    add("--energy", action="store_true", help="also repeat each call for 2 s and take its energy (NVML)")
    add("--out", type=report_path, help="write JSON to this file instead of standard output")
    return parser


def parse_problems(arguments: argparse.Namespace) -> list[AttentionProblem]:
    """Every combination of the values on the command line. Raises InvalidProblem."""
    from kernels.device.runtime import BACKEND

    problems = []
    dtypes = arguments.dtype or ["float16" if BACKEND == "cuda" else "float32"]
    lists = (arguments.batch, arguments.length, arguments.head_dim, arguments.mask, dtypes)
    for batch, length, head_dim, mask, dtype in itertools.product(*lists):
        for option, part, least in (("tokens", "length", length), ("width", "head_dim", head_dim)):
            whole = getattr(arguments, option)
            if whole is not None and whole < max(1, least):
                raise InvalidProblem(option, whole, f"expected at least {part}, which is {least}")
        load = (batch, arguments.q_heads, arguments.tokens or 0, arguments.width or 0)
        problem = SweepView("length", length, head_dim, dtype, mask, *load).problem()
        fields = ("kv_heads", "kv_len", "block_m", "block_n")
        given = {name: getattr(arguments, name) for name in fields if getattr(arguments, name) is not None}
        problems.append(problem.with_(**given))
    return problems


def main(argv: list[str] | None = None) -> int:
    """The command line: measure every problem it names.

    Returns 0; 1 if memory ran out on a problem, which the file then names; or 2 for a problem, peer or file
    that is not accepted.
    """
    arguments = argument_parser().parse_args(argv)
    measurements, left_out = [], []
    try:
        for problem in parse_problems(arguments):
            try:
                found = measure(
                    problem,
                    arguments.peers,
                    arguments.directions,
                    budget_s=arguments.budget,
                    energy=arguments.energy,
                )
            except MemoryError as error:
                why = f"out of memory: {error or 'the system has no more'}"
                left_out.append(f"{shape_words(problem)}: {why}")
                print(left_out[-1], file=sys.stderr, flush=True)
            else:
                measurements.append(found)
                print(report(found), file=sys.stderr, flush=True)
    except InvalidProblem as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    command = " ".join(["python -m kernels.measure", *(sys.argv[1:] if argv is None else argv)])
    text = Document(command, tuple(measurements), left_out=tuple(left_out)).to_json()
    if arguments.out is None:
        print(text, end="")
    else:
        arguments.out.write_text(text)
    return 1 if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
