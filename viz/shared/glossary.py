"""Every term of the project in plain words: shown on a term by hover and by key, and listed as a whole.

In a text, `[[row max]]` marks a term, and `[[row max|m]]` one that is shown as "m". A term with a symbol
lights the same symbol in the figures of the page, and a figure lights the term (`symbol_class`).
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

import streamlit as st

from viz.shared import theme


@dataclass(frozen=True)
class Term:
    """One term, in words that a newcomer knows; some name another term, which the list has too."""

    name: str
    words: str
    symbol: str = ""
    """As it stands in figures and formulas."""


TERMS = (
    Term("token", "A piece of a text, a word or a part of one. Each has a query, a key and a value."),
    Term("query", "One row of the matrix Q: what one token looks for. There are N queries.", "Q"),
    Term("key", "One row of K: what one token offers to be found by. There are M keys; mostly M = N.", "K"),
    Term("value", "One row of V, which belongs to a key: what is handed on if the key is found.", "V"),
    Term(
        "attention",
        "For each query, a weighted average of all values: the better a key fits, the more its value counts.",
    ),
    Term("head_dim", "How many numbers a query, a key and a value have each.", "d"),
    Term("head", "One attention of its own: its own Q, K, V and O. A layer of a model has several."),
    Term("key head", "One K and V of a layer. One or several heads of queries read it."),
    Term(
        "grouped-query attention",
        "Several heads of queries share each key head. So there are fewer keys and values to keep and load.",
    ),
    Term("score", "Dot product of a query and a key, divided by √d. All of them form the matrix S.", "S"),
    Term("softmax", "Turns a row of scores into weights: e^score of each, divided by the sum of them all."),
    Term(
        "weight",
        "Softmax of a row of scores: positive, with the sum 1. All of them form the matrix P. While a kernel "
        "goes over the keys, its P is not yet divided by l, so its rows add up to other numbers.",
        "P",
    ),
    Term("output", "Each row of O is the sum of all values, each times its weight.", "O"),
    Term("mask", "Says which keys a query may see. The score of any other key counts as −∞."),
    Term("causal", "The mask under which a token sees itself and the tokens before it, but none after it."),
    Term("GPU", "A processor with about a hundred SMs, which all read from and write to the same HBM."),
    Term("SM", "Streaming multiprocessor: one of the GPU's processors. It has its own SRAM."),
    Term("HBM", "The GPU's main memory: large, and slow compared with SRAM. Inputs and outputs are there."),
    Term(
        "SRAM",
        "Fast memory in each SM, its shared memory: far too small for S. Where the chapter Traffic counts "
        "what fits, the registers are part of it.",
    ),
    Term("on the chip", "In the SRAM or the registers of an SM, and not in HBM."),
    Term("registers", "The fastest memory of an SM: what it computes with right now."),
    Term("L2", "A cache between HBM and all SMs. A number that is read again soon may come from there."),
    Term("kernel", "A function that runs on the GPU. Its results leave the chip through HBM."),
    Term("Triton", "A language in Python for kernels: the code says what one program does with its tiles."),
    Term("interpreter", "Runs a Triton kernel on a CPU: the same steps and bytes, but not its speed."),
    Term("program", "One of the many copies of a kernel that run at the same time, each on its own tile."),
    Term("warp", "32 threads of a program that take each step together. A program has several warps."),
    Term("warpgroup", "Four warps of a program that multiply tiles together, on GPUs such as the H100."),
    Term("tensor cores", "The units of an SM that multiply tiles: many times as fast as its other units."),
    Term("tile", "A block of a few rows, or of rows and columns, of a matrix. A tile fits on the chip."),
    Term("query tile", "BLOCK_M queries, which one program works on.", "BLOCK_M"),
    Term("key tile", "BLOCK_N keys and their values, which a program loads at one step.", "BLOCK_N"),
    Term("tile step", "What a program does with one key tile: scores, row max, exponentials, sums."),
    Term(
        "row max", "The largest score of a row so far. It is subtracted before exp, so exp is at most 1.", "m"
    ),
    Term("row sum", "The sum of exp(score − m) over the scores of a row so far.", "l"),
    Term(
        "rescale factor",
        "exp(old m − new m). What was summed up with the old m, times this, is what the new m would have "
        "given.",
        "α",
    ),
    Term(
        "accumulator", "The sum of exp(score − m) times value so far. Divided by l it is the output.", "acc"
    ),
    Term("lse", "Log-sum-exp: m + ln l, one number per row. With it, P = exp(S − lse).", "lse"),
    Term("online softmax", "Softmax in one pass: m and l are kept, and rescaled when m grows."),
    Term(
        "standard attention",
        "Three kernels: S = QKᵀ, P = softmax(S), O = PV. S and P go through HBM. As PyTorch runs it, it is "
        "called naive attention.",
    ),
    Term(
        "naive attention",
        "Standard attention as PyTorch runs it, one operation after the other. Times, memory and errors are "
        "compared with it.",
    ),
    Term("row-wise attention", "A kernel that keeps whole rows of S on the chip: exact, if a row fits."),
    Term("FlashAttention-1", "Tiles, with the key tile outside: O, m and l come and go at every step."),
    Term("FlashAttention-2", "Tiles, with the query tile outside: O, m and l stay on the chip."),
    Term("SDPA", "Scaled dot-product attention: PyTorch's own function, which runs one of several kernels."),
    Term("cuDNN", "NVIDIA's library of kernels for neural networks. SDPA can run its attention."),
    Term("FlexAttention", "PyTorch's attention with scores and masks of your own, compiled to one kernel."),
    Term("forward", "From Q, K and V to O."),
    Term("backward", "From dO, the gradient of the output, to the gradients of Q, K and V."),
    Term("gradient", "How the loss changes with each number of a matrix: dQ belongs to Q."),
    Term("D", "One number per row of the backward pass: the row sum of O times dO, entry by entry.", "D"),
    Term("traffic", "Bytes that move between HBM and the chip."),
    Term(
        "requested bytes",
        "What loads and stores ask for. What is read again counts again, although it may come from L2.",
    ),
    Term("compulsory bytes", "Each input read once and each result written once: a kernel cannot move less."),
    Term("bandwidth", "How many bytes per second a memory can deliver."),
    Term("FLOP", "One floating-point operation: an addition or a multiplication."),
    Term("TFLOP/s", "10¹² floating-point operations per second: how fast a kernel computes."),
    Term("arithmetic intensity", "FLOP per byte that moves: a low one means that a kernel waits for memory."),
    Term("float16", "A number in 2 bytes with about 3 digits. bfloat16: 2 bytes, 2 digits, a wider range."),
    Term("ulp", "Unit in the last place: from a number to the next that its format can hold."),
    Term("counted", "By the code that ran: from the masks of its own loads and stores."),
    Term("modelled", "By a formula, which is named."),
    Term("measured", "On this machine, now."),
    Term("recorded", "Counted or measured on the GPU that is named, at the date that is named."),
)
SECTIONS = {
    "token": "Attention",
    "GPU": "The GPU and its kernels",
    "tile": "Tiles",
    "row max": "What a kernel keeps of each row",
    "standard attention": "Ways to compute attention",
    "forward": "Forward and backward",
    "traffic": "Bytes and speed",
    "float16": "Numbers, and where they are from",
}
"""First term of a section of the list -> its heading."""
BY_NAME = {term.name: term for term in TERMS}
SECOND_COLUMN = [term.name for term in TERMS].index("row max")
"""Place of the term with which the second column of the list begins."""
MARK = re.compile(r"\[\[([^\]|]+)(?:\|([^\]]+))?\]\]")
ASCII = {"α": "alpha", "Σ": "sum"}


def mark(text: str) -> str:
    """The text with its marked terms as HTML. Raises KeyError for a term that is not in TERMS."""
    return MARK.sub(lambda found: term_html(found[1], found[2] or found[1]), text)


def in_words(name: str) -> str:
    """A term and its sentence in Markdown, where a page cannot mark it."""
    term = BY_NAME[name]
    return f"**{term.name[0].upper()}{term.name[1:]}**: {term.words}"


def term_html(name: str, shown: str) -> str:
    """A term that explains itself by hover and by key (Tab), shown in these words."""
    term = BY_NAME[name]
    classes = f"term {symbol_class(term.symbol)}".strip()
    title = f"{term.name}, {term.symbol}" if term.symbol and term.symbol != term.name else term.name
    words = html.escape(f"{title}: {term.words}")
    return f'<dfn class="{classes}" tabindex="0" aria-description="{words}">{shown}</dfn>'


def symbol_class(symbol: str) -> str:
    """CSS class that a symbol has in text and figures; "" for none. Marks and indices do not count."""
    bare = re.sub(r"<sub>.*?</sub>|<sup>.*?</sup>|<[^>]*>", "", symbol).strip()
    bare = ASCII.get(bare, bare)
    return f"sym sym-{bare}" if re.fullmatch(r"[A-Za-z_]+", bare) else ""


def say(text: str, small: bool = False) -> None:
    """Markdown with marked terms, as a caption if `small`. Only for texts of the project: none is escaped."""
    (st.caption if small else st.markdown)(mark(text), unsafe_allow_html=True)


def glossary_style(colors: theme.Palette) -> None:
    """The looks of terms and of what they light. Once per page."""
    st.html(_style(colors))


def glossary_list() -> None:
    """All terms by section, in an expander that the search of the browser finds once it is open."""
    with st.expander("Glossary: every term in one sentence", icon=":material/dictionary:"):
        halves = (TERMS[:SECOND_COLUMN], TERMS[SECOND_COLUMN:])
        for column, terms in zip(st.columns(2, gap="large"), halves, strict=True):
            column.markdown("\n".join(map(_line, terms)))


def _line(term: Term) -> str:
    """A term in the list, after the heading of its section if it is the first."""
    heading = f"\n:gray-badge[{SECTIONS[term.name]}]\n\n" if term.name in SECTIONS else ""
    symbol = f", {term.symbol}" if term.symbol not in ("", term.name) else ""
    return f"{heading}- **{term.name}**{symbol}: {term.words}"


def _style(colors: theme.Palette) -> str:
    symbols = dict.fromkeys(filter(None, (symbol_class(term.symbol) for term in TERMS)))
    gradients = [f"sym sym-d{name}" for name in ("Q", "K", "V", "O", "S", "P")]
    names = [name.split()[-1] for name in (*symbols, *gradients, "sym sym-HBM", "sym sym-SRAM")]
    lights = ",\n".join(f'[data-testid="stMain"]:has(.{name}:is(:hover, :focus)) .{name}' for name in names)
    return f"""<style>
.term {{ font-style: normal; text-decoration: underline dotted {colors.muted} 1.5px;
  text-underline-offset: 0.22em; cursor: help; border-radius: 3px; }}
.term:focus-visible {{ outline: 2px solid {colors.now}; outline-offset: 2px; }}
.term:is(:hover, :focus) {{ anchor-name: --term; }}
.term:is(:hover, :focus)::after {{ content: attr(aria-description); position: fixed; z-index: 1000;
  left: 1rem; bottom: 1rem; box-sizing: border-box; width: max-content; max-width: min(24rem, 100vw - 2rem);
  padding: 0.5rem 0.8rem; border-radius: 8px; border: 1px solid {colors.line};
  background: {colors.surface}; color: {colors.text}; box-shadow: 0 4px 16px rgb(0 0 0 / 0.25);
  font-size: 1rem; font-weight: 400; line-height: 1.35; text-align: left; white-space: normal;
  pointer-events: none; }}
@supports (position-area: top) {{
  .term:is(:hover, :focus)::after {{ left: auto; bottom: auto; position-anchor: --term;
    position-area: top span-right; margin-block: 0.3rem;
    position-try-fallbacks: flip-inline, flip-block, flip-block flip-inline; }}
}}
{lights} {{ outline: 2px solid {colors.now}; outline-offset: 1px; border-radius: 3px;
  background-color: color-mix(in srgb, {colors.now} 14%, transparent); }}
</style>"""
