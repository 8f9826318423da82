"""Hugging Face's config.json -> Model. What is missing, strange or not accepted is said by its name there."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernels.models.model import Model
from kernels.problem import DTYPES, LIMITS, InvalidProblem

MOST_CHARACTERS = 1 << 16
FIELDS = tomllib.loads(Path(__file__).with_name("config_fields.toml").read_text("utf-8"))
NAMES, LAYER_TYPES = FIELDS["names"], FIELDS["layer_types"]
NO_DTYPE = "float16"
COUNT = (1, 1 << 20)
"""Limits of a number that has none of its own."""


class _Fields:
    """The fields of a config, and which of them were read."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values
        self.read: dict[str, Any] = {}

    def take(self, *names: str) -> Any:
        """The value of a field, by whichever of its names; None if it is missing or null."""
        given = {name: self.values[name] for name in names if self.values.get(name) is not None}
        self.read |= given
        if len({json.dumps(value) for value in given.values()}) > 1:
            pairs = " and ".join(f"{name}={_short(value)}" for name, value in given.items())
            raise InvalidProblem(names[0], None, f"{pairs} disagree", "Keep one of them.")
        return next(iter(given.values()), None)

    def whole(self, *names: str, limits: tuple[int, int] = COUNT) -> int | None:
        """A whole number within limits; None if it is missing or null."""
        value, (low, high) = self.take(*names), limits
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            name = next(name for name in names if name in self.read)
            raise InvalidProblem(name, _short(value), f"expected a whole number from {low} to {high}")
        return value

    def needed(self, *names: str, limits: tuple[int, int] = COUNT) -> int:
        value, (low, high) = self.whole(*names, limits=limits), limits
        if value is None:
            others = f" ({', '.join(names[1:])} count too)" if names[1:] else ""
            words = f"it is missing; expected a whole number from {low} to {high}{others}"
            raise InvalidProblem(names[0], None, words, "Add it to the config.")
        return value


def _short(value: Any) -> Any:
    text = repr(value)
    return value if len(text) <= 60 else f"{text[:60]} …"


def from_config(text: str, name: str = "your model") -> Model:
    """The model of a config.json. Raises InvalidProblem, which names the field."""
    if len(text) > MOST_CHARACTERS:
        words = f"expected at most {MOST_CHARACTERS} characters"
        raise InvalidProblem("config.json", f"{len(text)} characters", words)
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        why = f"it is not JSON: {error}" if isinstance(error, ValueError) else "it is nested too deeply"
        raise InvalidProblem("config.json", _short(text), why, "Paste the whole file.") from None
    if not isinstance(values, dict):
        raise InvalidProblem(
            "config.json", _short(values), 'expected an object, such as {"hidden_size": 4096}'
        )
    return read_model(values, name)


def read_model(values: Mapping[str, Any], name: str, source: str = "") -> Model:
    """The model of the fields of a config.json. Raises InvalidProblem, which names the field."""
    nested = (values[key] for key in FIELDS["nested"] if isinstance(values.get(key), dict))
    fields = _Fields({**values, **next(nested, {})})
    model_type = fields.take("model_type") or ""
    for field, why in FIELDS["refused"].items():
        if fields.values.get(field):
            raise InvalidProblem(field, _short(fields.values[field]), why)
    if "bert" in str(model_type):
        words = "its queries see the keys after them; expected a decoder"
        raise InvalidProblem("model_type", model_type, words)
    notes: list[str] = []
    q_heads = fields.needed(*NAMES["q_heads"], limits=LIMITS["q_heads"])
    layers = fields.needed(*NAMES["layers"], limits=(1, 1024))
    kinds, window = _layer_kinds(fields, str(model_type), layers, notes)
    apart, scores = _apart(fields, str(model_type))
    model = Model(
        name=name,
        source=source,
        q_heads=q_heads,
        kv_heads=_kv_heads(fields, q_heads, notes),
        head_dim=_head_dim(fields, str(model_type), q_heads),
        dtype=_dtype(fields, notes),
        layer_kinds=kinds,
        window=window,
        max_length=fields.whole(*NAMES["length"], limits=(1, 1 << 30)),
        apart=apart,
        scores=scores,
        notes=tuple(notes),
        config=json.dumps(fields.read, separators=(",", ":")),
    )
    for kind in model.kinds:
        model.problem(1, "decode", kind)  # the problem has limits of its own
    return model


def _kv_heads(fields: _Fields, q_heads: int, notes: list[str]) -> int:
    kv_heads = fields.whole(*NAMES["kv_heads"], limits=LIMITS["kv_heads"])
    if kv_heads is None:
        shared = fields.take("multi_query")
        kv_heads = 1 if shared is True else q_heads
        why = "multi_query shares one among all" if shared is True else "each query head has its own"
        notes.append(f"`num_key_value_heads` is missing: {why}.")
    if q_heads % kv_heads:
        raise InvalidProblem("num_key_value_heads", kv_heads, f"it must divide the {q_heads} query heads")
    return kv_heads


def _head_dim(fields: _Fields, model_type: str, q_heads: int) -> int:
    limits = low, high = LIMITS["head_dim"]
    if model_type.startswith(tuple(FIELDS["own_head_dim"])):
        return fields.needed("head_dim", limits=limits)
    head_dim = fields.whole("head_dim", limits=limits)
    if head_dim is not None:
        return head_dim
    hidden = fields.needed(*NAMES["hidden"])
    if hidden % q_heads or not low <= hidden // q_heads <= high:
        words = f"without head_dim it must be {low} to {high} times the {q_heads} query heads"
        raise InvalidProblem("hidden_size", hidden, words, "Add head_dim.")
    return hidden // q_heads


def _dtype(fields: _Fields, notes: list[str]) -> str:
    given = fields.take(*NAMES["dtype"])
    if given is None or given == "auto":
        notes.append(f"`dtype` is missing: counted as {NO_DTYPE}.")
        return NO_DTYPE
    dtype = str(given).removeprefix("torch.")
    if dtype not in DTYPES:
        raise InvalidProblem("dtype", _short(given), f"expected one of {', '.join(DTYPES)}")
    return dtype


def _layer_kinds(
    fields: _Fields, model_type: str, layers: int, notes: list[str]
) -> tuple[tuple[str, ...], int | None]:
    types, switch = fields.take("layer_types"), fields.take("use_sliding_window")
    window = fields.whole("sliding_window", limits=(1, 1 << 30))
    if switch is None and window and model_type.startswith("qwen"):
        notes.append("`use_sliding_window` is missing: false, as for every Qwen.")
        switch = False
    if switch is False:
        window = None
    if types is not None:
        kinds = _named_kinds(types, layers)
        if "window" in kinds and window is None:
            words = "layer_types has sliding_attention; expected the number of keys"
            raise InvalidProblem("sliding_window", None, words)
    elif window is None:
        kinds = ("full",) * layers
    else:
        kinds = _pattern(fields, model_type, layers, notes)
    return kinds, window if "window" in kinds else None


def _named_kinds(types: Any, layers: int) -> tuple[str, ...]:
    if not isinstance(types, list) or len(types) != layers:
        given = f"{len(types)} entries" if isinstance(types, list) else _short(types)
        raise InvalidProblem("layer_types", given, f"expected a list of {layers}, one per layer")
    for each in types:
        if not isinstance(each, str) or each not in LAYER_TYPES:
            raise InvalidProblem("layer_types", _short(each), f"expected {' or '.join(LAYER_TYPES)}")
    return tuple(LAYER_TYPES[each] for each in types)


def _pattern(fields: _Fields, model_type: str, layers: int, notes: list[str]) -> tuple[str, ...]:
    """Which layers have the window, if no field names them one by one."""
    every = fields.whole("sliding_window_pattern")
    first = fields.whole("max_window_layers", limits=(0, 1 << 20))
    if every is None and model_type in FIELDS["full_every"]:
        every = FIELDS["full_every"][model_type]
        notes.append(f"`layer_types` is missing: one layer of {every} is full, as for every {model_type}.")
    if every is not None:
        return tuple("window" if (layer + 1) % every else "full" for layer in range(layers))
    return tuple("window" if layer >= (first or 0) else "full" for layer in range(layers))


def _apart(fields: _Fields, model_type: str) -> tuple[tuple[str, ...], dict[str, int]]:
    """What is done to the scores, in words, and what of it a problem can have."""
    apart, scores = [], {}
    softcap = fields.take("attn_logit_softcapping")
    if softcap is not None:
        if isinstance(softcap, bool) or not isinstance(softcap, (int, float)) or not 0 < softcap < 1e6:
            raise InvalidProblem(
                "attn_logit_softcapping", _short(softcap), "expected a number above 0, or null"
            )
        apart.append(f"a softcap of {softcap:g} on its scores")
        if softcap == int(softcap) <= LIMITS["softcap"][1]:
            scores["softcap"] = int(softcap)
    if model_type == "gpt_oss":
        apart.append("a sink logit per head in the row sum")
        scores["sink_logit"] = 1
    scale = fields.whole("query_pre_attn_scalar")
    if scale is not None and scale != fields.values.get("head_dim"):
        apart.append(f"a scale of 1/√{scale}")
    factors = ("attention_multiplier", "attn_output_multiplier")
    apart += [f"{name} {fields.take(name)}" for name in factors if fields.take(name) is not None]
    is_alibi = fields.take("alibi") is True or fields.take("position_embedding_type") == "alibi"
    if is_alibi or model_type == "bloom":
        apart.append("ALiBi on its scores")
        scores["alibi"] = 1
    return tuple(apart), scores
