"""A kernel of the user: what it is given, what it gives, and what is said when it gives something else."""

import re

import pytest

from kernels.check.case.cases import CheckCase
from kernels.check.case.limits import Limits
from kernels.check.subject.user_kernel import UserKernel, call_arguments
from kernels.device.runtime import DEVICE
from kernels.problem import AttentionProblem, InvalidProblem
from tests import BUGGY_KERNEL as BUGGY
from tests.kernels.helpers import tiny


@pytest.mark.parametrize(("function", "verdict"), [("attention", "fail"), ("attention_fixed", "pass")])
def test_a_missing_rescale_fails_and_the_fixed_kernel_passes(function, verdict, checked):
    result = checked(BUGGY, function, CheckCase(tiny(96, 128, 32, 32, head_dim=32), "user", repeats=2))
    assert result.verdict == verdict, result.reason
    assert result.label == f"buggy_kernel.py:{function}"
    assert any("Gradients were not checked" in note for note in result.notes)
    weights = result.map("weights")
    wrong = [(weights.values[:, column] > 1).mean() for column in range(weights.values.shape[1])]
    # In most rows a later tile has a larger max, by which the weights of the first tile are not rescaled.
    # After the last tile there is none.
    assert (wrong[0] > 0.5 and wrong[-1] == 0) if verdict == "fail" else not any(wrong)


RETURNS = "def attention(q, k, v): return "
BODY = "import torch\ndef attention(q, k, v):\n    "
CHAINED = "try: return {}[0]\n    except KeyError as error: raise ValueError('only 64') from error"
INSTEAD = (
    ("def attention(q, k, v): raise KeyboardInterrupt", "fail", "its forward raised KeyboardInterrupt"),
    (f"{RETURNS}q[..., :8]", "fail", r"torch.float16 \(1, 1, 32, 8\); expected .*\(1, 1, 32, 16\)"),
    (f"{RETURNS}q.float()", "fail", "returned torch.float32"),
    (f"{RETURNS}None", "fail", "returned NoneType"),
    ("def attention(q k): pass", "invalid", "mine.py:attention could not be imported: SyntaxError"),
    ("raise SystemExit(3)", "invalid", "imported: SystemExit"),
    ("import pytest\npytest.importorskip('no_such_module')", "invalid", "imported: Skipped"),
    ("def other(q, k, v): return q\nclass Attention: pass", "invalid", "it has Attention and other$"),
    ("attention = 3", "invalid", "mine.py has no function attention$"),
    (f"{BODY}assert (\n        q.shape[3]\n        == 64\n    ), 'only 64'", "invalid", "Error: only 64"),
    (BODY + CHAINED, "invalid", "Error: only 64"),
    (f"{BODY}torch._check_value(False, lambda: 'only 64')", "invalid", "Error: only 64"),
    (f"{BODY}raise TypeError('only 64')", "invalid", "Error: only 64"),
)


@pytest.mark.parametrize(("source", "verdict", "words"), INSTEAD)
def test_what_a_kernel_does_instead_is_said(checked, source, verdict, words):
    result = checked(source, q_len=32)
    assert result.verdict == verdict
    assert re.search(words, result.reason)


def test_masks_reach_a_kernel_as_scaled_dot_product_attention_takes_them():
    def attention(query, key, value, is_causal=False):
        return query

    def given(function, **changes):
        problem = AttentionProblem(q_len=8, kv_len=8, mask="causal").with_(**changes)
        return call_arguments(function, CheckCase(problem), DEVICE, Limits())

    assert given(attention) == {"is_causal": True}
    mask = given(lambda q, k, v, **rest: q, kv_len=9)["attn_mask"]
    assert mask.sum() == 8 * 9 - 7 * 8 // 2
    for changes, name in (({"kv_len": 9}, "attn_mask"), ({"q_heads": 4, "kv_heads": 2}, "enable_gqa")):
        with pytest.raises(InvalidProblem, match=f"no parameter {name}"):
            given(attention, **changes)


@pytest.mark.parametrize(
    "text", ["nothing.py:f", "file.txt:f", f"{BUGGY}", f"{BUGGY}:not a name", f"{BUGGY}:", ""]
)
def test_a_name_that_is_no_file_and_function_is_refused(text):
    with pytest.raises(InvalidProblem, match=r"expected a Python file and a function in it|there is no file"):
        UserKernel.parse(text)
