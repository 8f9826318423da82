"""Numbers and problems in words. viz/player/js/run/formats.js has some too; a test holds the two together."""

import math
import re
from decimal import Decimal

from kernels.problem import AttentionProblem


def format_bytes(count: float) -> str:
    """Decimal units, three significant digits: 1.18 MB."""
    return f"{count:.0f} B" if count < 999.5 else _in_units(count, "TB GB MB kB", 1e12)


def _in_units(value: float, units: str, size: float) -> str:
    """Three significant digits and one of the units, of which the first has a size and the next a 1000th."""
    *larger, last = units.split(" ")
    for unit in larger:
        if value >= 0.9995 * size:
            return f"{significant(value / size)} {unit}"
        size /= 1000
    return f"{significant(value / size)} {last}"


def format_count(count: int, noun: str) -> str:
    """How many of something: 1 program, 1,024 programs."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_length(count: int) -> str:
    """A sequence length on an axis: 512, 1k, 16k, 1M; with all digits if it is not a multiple of 1024."""
    if count and count % (1 << 20) == 0:
        return f"{count >> 20}M"
    return f"{count // 1024}k" if count and count % 1024 == 0 else f"{count}"


def whole_number(low: int, high: int) -> str:
    """What a field takes: a whole number from 1 to 1,048,576."""
    return f"a whole number from {low:,} to {high:,}"


def number_help(low: int, high: int, default: int) -> str:
    """What a field for a whole number takes, and what Streamlit makes of anything else."""
    what = whole_number(low, high)
    return f"{what[0].upper()}{what[1:]}. A fraction is cut off; an empty field takes {default:,}."


def format_kib(count: float) -> str:
    """Sizes of on-chip memory are powers of two: 56 KiB."""
    return f"{significant(count / 1024, 4)} KiB"


def format_ms(milliseconds: float) -> str:
    """Seconds down to nanoseconds, three significant digits: 1.5 ms."""
    return _in_units(milliseconds, "s ms µs ns", 1e3)


def format_joules(joules: float) -> str:
    """Joules down to microjoules, three significant digits: 295 mJ."""
    return _in_units(joules, "J mJ µJ", 1.0)


def format_error(error: float) -> str:
    """A small number in powers of ten: 6.0e-04."""
    return "0" if error == 0 else f"{error:.1e}"


def format_flops(count: float) -> str:
    """Floating-point operations, decimal units: 268 MFLOP. For a rate write "/s" after it."""
    return _in_units(count, "PFLOP TFLOP GFLOP MFLOP kFLOP FLOP", 1e15)


def format_ratio(ratio: float) -> str:
    """How many times: 2.9×, 18×, 15,542×."""
    return f"{ratio:,.0f}×" if ratio >= 10 else f"{ratio:.1f}×"


def format_entry(value: float, whole: bool = False) -> str:
    """An entry of a small matrix: 0.12, 0.004, 12.3, 5e3; whole numbers if all entries are."""
    size = abs(value)
    if not math.isfinite(value):
        return format_number(value)
    if whole and size < 99_999.5:
        text = f"{value:,.0f}"
    elif value == 0 or 0.005 <= size < 999.5:
        text = f"{value:.2f}" if size < 9.995 else f"{value:.1f}"
    else:
        text = f"{value:.1g}".replace("e-0", "e-").replace("e+0", "e")
    return text.replace("-", "−")


def significant(number: float, digits: int = 3) -> str:
    """`digits` significant digits without an exponent; zeros at the end are left out."""
    if number == 0:
        return "0"
    text = f"{number:.{digits}g}"
    return f"{float(text):,.0f}" if abs(number) >= 10 ** (digits - 1) - 0.5 else f"{Decimal(text):f}"


def format_number(number: float, digits: int = 3) -> str:
    """Any float: 0.135, −2, 4.54e−05, ∞, NaN."""
    number = float(number)
    if not math.isfinite(number):
        return str(number).replace("nan", "NaN").replace("inf", "∞").replace("-", "−")
    plainly = number == 0 or 1e-3 <= abs(number) < 1e6
    text = significant(number, digits) if plainly else f"{number:.{digits - 1}e}"
    return text.replace("-", "−")


def count_tex(count: int) -> str:
    """A whole number for formulas, every digit: 65{,}536."""
    return f"{count:,}".replace(",", "{,}")


def format_tex(number: float, digits: int = 3) -> str:
    """`format_number` for formulas: 4.54 times ten to the -5 as TeX sets it, infinity as its sign."""
    text = format_number(number, digits).replace("−", "-")
    if not any(figure.isdigit() for figure in text):
        return text.replace("∞", r"\infty").replace("NaN", r"\text{NaN}")
    mantissa, power, exponent = text.replace(",", "{,}").partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if power else mantissa


def problem_words(problem: AttentionProblem) -> str:
    """Shapes, element type, mask and tiles: "64 × 64, head_dim 32, float16, causal, tiles 16 × 16"."""
    parts = [f"{problem.q_len} × {problem.kv_len}"]
    parts += [f"batch of {problem.batch}"] if problem.batch > 1 else []
    heads = f"{problem.q_heads} heads"
    parts += [heads] if problem.q_heads == problem.kv_heads > 1 else []
    parts += [f"{heads} over {problem.kv_heads}"] if problem.q_heads != problem.kv_heads else []
    mask = problem.mask
    if mask == "window":
        mask = f"window of {problem.window_left} keys before and {problem.window_right} after"
    parts += [f"head_dim {problem.head_dim}", problem.dtype, mask]
    return ", ".join([*parts, f"tiles {problem.block_m} × {problem.block_n}"])


def file_name(words: str) -> str:
    """Words as the name of a file without its ending: "64 × 64, head_dim 32" is 64x64-head-dim-32."""
    return re.sub(r"[^a-z0-9.]+", "-", words.lower().replace(" × ", "x")).strip("-")


def plain(text: str) -> str:
    """Markdown that shows exactly a text of a file: no link, and no picture that a browser would fetch."""
    return re.sub(r"([\\`*_{}\[\]()<>#+!|$~:&-])", r"\\\1", text)
