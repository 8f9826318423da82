"""Widgets of the Check page: which kernel, how often, and the user's own tensors."""

from __future__ import annotations

import streamlit as st

from kernels.check.cases import KERNELS, MAX_REPEATS, UPLOADED, USER, kernels_on
from kernels.check.file_rules import InvalidUpload
from kernels.check.uploads import UploadFacts, read_upload
from kernels.check.user_kernel import UserKernel
from kernels.problem import InvalidProblem
from viz.shared.options import named_kernel

FILE_HELP = (
    "**q**, **k**, **v** as (batch, heads, length, head_dim) in float16, bfloat16 (.safetensors only) or "
    "float32; further **do**; and results computed elsewhere: **o**, **lse**, **dq**, **dk**, **dv**. The "
    "mask is the one chosen here. Nothing in the file is run, and it stays on this machine."
)
MOST_IGNORED = 8
"""Names of tensors in a file that nothing is done with, shown up to this many."""


def user_kernel() -> UserKernel | None:
    """The kernel that the command line named; what is wrong with its name is said here."""
    try:
        return named_kernel()
    except InvalidProblem as error:
        st.error(f"--kernel: {error}", icon=":material/error:")
        return None


def kernel_controls(backend: str, user: UserKernel | None) -> tuple[str, bool, int]:
    """Name of the kernel, whether gradients count, and the number of runs; at the top of the sidebar."""
    names = kernels_on(backend if backend == "cuda" else "interpreter", user is not None)
    labels = {name: KERNELS[name].label for name in names} | ({USER: user.name} if user else {})
    with st.sidebar:
        help_words = "\n".join(f"- **{name}**: {label}" for name, label in labels.items())
        kernel = st.selectbox("Kernel to check", names, key="kernel", bind="query-params", help=help_words)
        left, right = st.columns([3, 2], vertical_alignment="bottom")
        gradients = left.toggle("gradients", True, key="gradients", bind="query-params")
        repeats = right.number_input(
            "runs", 1, MAX_REPEATS, 3, key="repeats", bind="query-params", help="compared bit by bit"
        )
    return kernel, gradients, repeats


def upload_control() -> tuple[bytes, str, UploadFacts | None]:
    """The user's own file, its name, and what is in it.

    Empty and None without a file, and for one that is not taken, after the page has said why.
    """
    with st.sidebar.expander("Own tensors (.npz, .safetensors)"):
        file = st.file_uploader(
            "Q, K, V and results",
            ["npz", "safetensors"],
            key="tensors",
            help=FILE_HELP,
            label_visibility="collapsed",
        )
    if file is None:
        return b"", "", None
    data = file.getvalue()
    try:
        facts = _facts(data)
    except (InvalidUpload, InvalidProblem) as error:
        st.error(f"{file.name}: {error}", icon=":material/error:")
        return b"", "", None
    st.caption(
        f"{file.name}: {', '.join(facts.names)}{_ignored_words(facts)}. A file is not part of the URL."
    )
    return data, file.name, facts


def _ignored_words(facts: UploadFacts) -> str:
    if not facts.ignored:
        return ""
    names = ", ".join(name[:30] for name in facts.ignored[:MOST_IGNORED])
    return f"; not understood and left alone: {names}"


@st.cache_data(max_entries=16, show_spinner=False)
def _facts(data: bytes) -> UploadFacts:
    return read_upload(data).facts


def subject_control(facts: UploadFacts | None, kernel: str) -> str:
    """The kernel, or UPLOADED if the file's own O is to be judged."""
    if facts is None or not facts.has_output:
        return kernel
    help_words = (
        f"**result**: the O in the file, and what else is in it. **kernel**: {kernel} on the Q, K and V of "
        "the file."
    )
    chosen = st.segmented_control(
        "Judge",
        ["result", "kernel"],
        default="result",
        required=True,
        key="judge",
        bind="query-params",
        help=help_words,
    )
    return UPLOADED if chosen == "result" else kernel
