"""Your model: what the attention of a model costs, and the way from it to Explore, Measure and Check."""

import streamlit as st

from kernels.algorithms import FIRST
from kernels.device.gpus import DEFAULT_GPU, GPUS
from kernels.measure.document import Document
from kernels.models import FIRST_MODEL, LENGTHS, MODELS
from kernels.models.config import from_config
from kernels.models.model import Model
from kernels.problem import LIMITS, AttentionProblem, InvalidProblem
from kernels.recordings import recorded_measurements
from viz.model import words
from viz.model.figures import memory_figure
from viz.shared import runs, theme
from viz.shared.formats import format_length, plain
from viz.shared.layout import colors, draw_cards, header, number_field, plot, problem_link
from viz.shared.link import UrlField, takes_from_link
from viz.shared.problem_form import by_name

OWN = "own"
MODEL = UrlField("model", FIRST_MODEL, (*MODELS, OWN))
LENGTH, FIRST_LENGTH = "tokens", 8192
BATCH = "sequences"
CONFIG = UrlField("config", "")
# What the interpreter and a float64 reference on a CPU take seconds for.
PLAYED_ON_CPU, CHECKED_ON_CPU = 32768, 256


def controls() -> tuple[Model | None, int, int]:
    """The model, tokens and sequences; no model after saying what is wrong with its config.json."""
    left, middle, right = st.columns([3, 2, 2])
    labels = {name: model.name for name, model in MODELS.items()} | {OWN: "your own config.json"}
    name = by_name(left, "Model", MODEL, labels)
    length = number_field(middle, "Tokens", 1, LIMITS["kv_len"][1], FIRST_LENGTH, LENGTH)
    batch = number_field(right, "Sequences at a time", 1, LIMITS["batch"][1], 1, BATCH)
    with st.container(horizontal=True, gap="small"):
        for each in LENGTHS:
            label, key = format_length(each), f"to-{each}"
            st.button(label, key, on_click=st.session_state.update, args=({LENGTH: each},), type="tertiary")
    return (_own_model() if name == OWN else MODELS[name]), length, batch


def _own_model() -> Model | None:
    if CONFIG.name not in st.session_state:
        st.session_state[CONFIG.name] = st.query_params.get(CONFIG.name, "")
    text = st.text_area(
        "config.json of a model on Hugging Face",
        key=CONFIG.name,
        height=160,
        placeholder='{"num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32, …}',
    )
    if not text.strip():
        st.query_params.pop(CONFIG.name, None)
        st.info("Paste the whole file. It stays on this machine.", icon=":material/content_paste:")
        return None
    try:
        model = from_config(text)
    except InvalidProblem as error:
        st.error(plain(str(error)), icon=":material/error:")
        return None
    st.query_params[CONFIG.name] = model.config
    return model


def show_model(shown: words.Shown, on_gpu: bool) -> None:
    model, length = shown.model, shown.length
    facts = f"config.json of huggingface.co/{model.source}" if model.source else "config.json of yours"
    said = [f"{words.model_line(model)} ({facts})"]
    said += [words.apart_words(model), *model.notes]
    if model.max_length and length > model.max_length:
        said.append(words.WORDS("positions", most=model.max_length, length=length))
    top = st.container()
    draw_cards(words.cards(shown))
    chapter = {"chapter": "softmax"}
    st.page_link(
        "viz/learn/page.py", label=words.WORDS("why"), icon=":material/school:", query_params=chapter
    )
    chart, table = st.columns(2, gap="large")
    with chart:
        plot(memory_figure(model, length, shown.batch, shown.gpu, colors()), key="memory")
    with table:
        top.markdown("  \n".join(filter(None, [words.result(shown), *said])))
        st.markdown(words.table(shown))
        st.caption("  \n".join([words.sdpa_words(shown), *map(plain, words.nearest_words(shown))]))
    for kind in model.kinds:
        _ways_on(model, kind, length, shown.batch, on_gpu)


def _ways_on(model: Model, kind: str, length: int, batch: int, on_gpu: bool) -> None:
    """One kind of layers, and its problem on the other pages. On a GPU, Measure is to measure just this."""
    layer, step = (model.problem(length, phase, kind, batch) for phase in ("prefill", "decode"))
    head = runs.recorded(model.head(length, kind), FIRST)
    st.markdown(words.kind_words(model, kind, length) + (f" {words.exact_words(head)}" if head else ""))
    is_played = on_gpu or head is not None
    played, checked = (length if is_played else PLAYED_ON_CPU), (length if on_gpu else CHECKED_ON_CPU)
    with st.container(horizontal=True):
        problem_link("explore", *_one_head("Play one head", model, kind, length, played))
        problem_link("explore", "Play a decoding step", step.with_(batch=1), algorithm="split_kv")
        problem_link("measure", "Measure", layer, **({"axis": "one point"} if on_gpu else {}))
        problem_link("check", *_one_head("Check one head", model, kind, length, checked))


def _one_head(label: str, model: Model, kind: str, length: int, most: int) -> tuple[str, AttentionProblem]:
    """A link's label, and the problem of one head of at most `most` tokens."""
    if length > most:
        label = f"{label} at {format_length(most)}"
    return label, model.head(min(length, most), kind)


def show() -> None:
    store = runs.run_store()
    header("Your model", store)
    model, length, batch = controls()
    if model is None:
        return
    live = st.session_state.get("live", Document()).measurements
    on_gpu = tuple(each for each in live[::-1] if each.device.backend == "cuda")  # a CPU times no kernel
    shown = words.Shown(model, length, batch, on_gpu, recorded_measurements(), GPUS[DEFAULT_GPU])
    try:
        show_model(shown, on_gpu=runs.backend(store) == "cuda")
    except InvalidProblem as error:
        st.error(str(error), icon=":material/error:")
    st.caption(theme.ABOUT_NUMBERS)


takes_from_link(
    MODEL,
    UrlField(LENGTH, FIRST_LENGTH, range(1, LIMITS["kv_len"][1] + 1)),
    UrlField(BATCH, 1, range(1, LIMITS["batch"][1] + 1)),
    CONFIG,
)
show()
