"""Widgets of the Check page: which kernel, how often, and the user's own tensors."""

import hashlib
from dataclasses import dataclass

import streamlit as st

from kernels.check.case.cases import KERNELS, LAYOUTS, MAX_REPEATS, UPLOADED, kernels_on
from kernels.check.files.uploads import AXES, AXES_WORDS, InvalidUpload, UploadFacts, read_upload
from kernels.check.subject.user_kernel import UserKernel
from kernels.problem import InvalidProblem
from viz.shared.formats import plain
from viz.shared.layout import segments
from viz.shared.link import forget
from viz.shared.options import kernel_labels, named_kernels

FILE_HELP = (
    "**q**, **k**, **v** as (batch, heads, length, head_dim) in float16, bfloat16 (.safetensors only) or "
    "float32; further **do**; and results computed elsewhere: **o**, **lse**, **dq**, **dk**, **dv**. The "
    "mask is the one chosen here. Nothing in the file is run, and it stays on this machine."
)
LAYOUT_HELP = (
    "**transposed**: views of (batch, length, heads, head_dim) tensors. **sliced**: parts of larger tensors, "
    "with NaN around them. **packed**: views of one tensor that holds Q, K and V."
)
OWN_KERNEL = {
    "A page cannot load code, so start the app again with your function. It takes the arguments of "
    "PyTorch's scaled dot-product attention (SDPA).": (
        "streamlit run app.py -- --kernel my_file.py:my_function"
    ),
    "After you save the file, reload the page: it is checked again. To try it, take a kernel with a classic "
    "bug:": "streamlit run app.py -- --kernel examples/buggy_kernel.py:attention",
    "The same without the app:": "python -m kernels.check --kernel my_file.py:my_function",
}
"""How to check a function of the user's: words and the command that they are about."""
CONTROLS_IN_URL = ("kernel", "gradients", "repeats", "judge", "layout", "scale")
MOST_IGNORED = 8
"""Names of tensors in a file that nothing is done with, shown up to this many."""


def user_kernels() -> tuple[UserKernel, ...]:
    """The kernels that the command line named; what is wrong with a name is said here."""
    try:
        return tuple(named_kernels())
    except InvalidProblem as error:
        st.error(f"--kernel: {error}", icon=":material/error:")
        return ()


def kernel_controls(backend: str, users: tuple[UserKernel, ...]) -> tuple[str, bool, int]:
    """Name of the kernel, whether gradients count, and the number of runs; at the top of the sidebar."""
    names = kernels_on(backend if backend == "cuda" else "interpreter", len(users))
    named = kernel_labels(users)
    forget("kernel", named.values())  # in the URL a kernel of the user has its label
    labels = {name: KERNELS[name].label for name in names} | named
    with st.sidebar:
        kernel = st.selectbox(
            "Kernel to check",
            names,
            key="kernel",
            bind="query-params",
            help="\n".join(f"- **{name}**: {label}" for name, label in labels.items()),
            format_func=lambda name: named.get(name, name),
        )
        left, right = st.columns([3, 2], vertical_alignment="bottom")
        gradients = left.toggle("gradients", True, key="gradients", bind="query-params")
        repeats = right.number_input(
            "runs", 1, MAX_REPEATS, 3, key="repeats", bind="query-params", help="compared bit by bit"
        )
        if not users:
            with st.expander("A kernel of your own"):
                for words, command in OWN_KERNEL.items():
                    st.markdown(words)
                    st.code(command, language=None, wrap_lines=True)
    return kernel, gradients, repeats


@dataclass(frozen=True)
class OwnFile:
    """The user's own file of tensors."""

    data: bytes = b""
    """Empty without a file, and for one that is not taken."""
    name: str = ""
    """Empty without a file."""
    facts: UploadFacts | None = None
    """What is in it; None without a file, and for one that is not taken."""


def upload_control() -> OwnFile:
    """The user's own file. Why one is not taken is said here."""
    with st.sidebar.expander("Own tensors (.npz, .safetensors)"):
        file = st.file_uploader(
            "Q, K, V and results",
            ["npz", "safetensors"],
            key="tensors",
            help=FILE_HELP,
            label_visibility="collapsed",
        )
    if file is None:
        return OwnFile()
    data = file.getvalue()
    axes_key = f"axes-{hashlib.sha256(data).hexdigest()}"  # what was chosen for one file is not for the next
    axes = st.session_state.get(axes_key)
    try:
        facts = _facts(data, axes if axes in AXES else None)
    except (InvalidUpload, InvalidProblem) as error:
        st.error(plain(f"{file.name}: {error}"), icon=":material/error:")
        return OwnFile(name=file.name)
    ignored = ", ".join(name[:30] for name in facts.ignored[:MOST_IGNORED])
    left_alone = f"; not understood and left alone: {ignored}" if ignored else ""
    found = f"{file.name}: {', '.join(facts.names)}{left_alone}. A file is not part of the URL."
    st.caption(plain(found))
    if facts.axes_words:
        st.info(facts.axes_words, icon=":material/swap_horiz:")
    if facts.axes_words or axes_key in st.session_state:  # the other order is on offer
        st.segmented_control(
            "Axes of the file's tensors",
            AXES,
            default=facts.axes,
            required=True,
            key=axes_key,
            format_func=AXES_WORDS.__getitem__,
        )
    return OwnFile(data, file.name, facts)


@st.cache_data(max_entries=16, show_spinner=False)
def _facts(data: bytes, axes: str | None) -> UploadFacts:
    return read_upload(data, axes).facts


def subject_control(facts: UploadFacts | None, kernel: str) -> str:
    """The kernel, or UPLOADED if the file's own O is to be judged."""
    if facts is None or not facts.has_output:
        return kernel
    words = (
        "**result**: the O in the file, and what else is in it. "
        f"**kernel**: {kernel} on the Q, K and V of the file."
    )
    chosen = segments("Judge", ("result", "kernel"), "judge", help=words)
    return UPLOADED if chosen == "result" else kernel


def layout_controls() -> tuple[str, float | None]:
    """How Q, K and V lie in memory, and the factor on the scores as entered, None for 1 / sqrt(head_dim)."""
    with st.sidebar.expander("Layout and scale"):
        layout = st.selectbox("layout", LAYOUTS, key="layout", bind="query-params", help=LAYOUT_HELP)
        scale = st.number_input(
            "scale",
            min_value=0.0,
            value=None,
            key="scale",
            bind="query-params",
            placeholder="1 / sqrt(head_dim)",
            help="Factor on the scores, handed over as `scale`. Your kernel and flash_attention take one.",
        )
    return layout, scale
