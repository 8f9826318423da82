"""What the interpreter saw of a user's kernel, on the Check page: findings, bits, and the kernel played."""

import pytest

from kernels.device.runtime import DEVICE
from tests import BUGGY_KERNEL as BUGGY
from tests.kernels.sanitizer import cases
from tests.viz.check.pages import SMALL, has_verdict, open_page, settled, words

if DEVICE != "cpu":
    pytest.skip("the interpreter is off on a GPU", allow_module_level=True)

FORWARD = SMALL | {"kernel": "user", "gradients": "false", "repeats": 2, "kv_len": 70}


def subheaders(app):
    return [element.value for element in app.subheader]


def test_a_finding_is_shown_with_its_line(named):
    named(f"{cases.__file__}:reads_past_keys")
    app = settled(open_page(**FORWARD), has_verdict)
    assert "FAILS" in words(app)
    assert "there is an out-of-bounds read at cases.py:" in words(app).replace("\\", "")
    assert "Out-of-bounds read" in words(app)
    assert any("# reads past the end" in code.value for code in app.code)


def test_a_right_kernel_says_what_was_watched_and_plays_beside_ours(named):
    named(f"{BUGGY}:attention_fixed")
    app = settled(open_page(**FORWARD), has_verdict)
    assert "no access leaves its tensor's memory" in words(app).replace("\\", "")
    assert "Play it" in subheaders(app)
    assert "requested by its loads and stores" not in words(app)
    app.button(key="play-it").click().run()
    settled(app, lambda app: "requested by its loads and stores" in words(app))
    assert "Its tiles are 32 × 32" in words(app)
    assert not app.exception
    app.segmented_control(key="played").set_value("alone").run()
    assert not app.exception


def test_the_bits_are_compared_when_asked_for(named):
    named(f"{BUGGY}:attention_fixed")
    app = settled(open_page(**FORWARD), has_verdict)
    app.button(key="ask-determinism").click().run()
    settled(app, lambda app: "variations give the same bits" in words(app))
    assert len(app.dataframe) >= 1


def test_a_kernel_of_ours_has_nothing_to_play():
    app = settled(open_page(**SMALL, kernel="flash2", gradients="false"), has_verdict)
    assert "Play it" not in subheaders(app)
    assert "Determinism and batch invariance" in subheaders(app)


def test_a_function_of_torch_has_no_tiles_to_play(named, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from torch.nn.functional import scaled_dot_product_attention\n"
        "def attention(q, k, v):\n    return scaled_dot_product_attention(q, k, v)\n"
    )
    named(f"{path}:attention")
    app = settled(open_page(**FORWARD), has_verdict)
    assert "It launched no Triton kernel" in words(app)
