"""The Roofline chapter."""

import pytest

from tests.app.pages import open_chapter, words

pytestmark = pytest.mark.usefixtures("no_worker")


def test_a_url_may_hold_anything():
    wrong = {"q": "3", "k": "", "d": "9999", "gpu": "<b>", "view": "Forward"}
    app = open_chapter("roofline", **{f"roofline_{name}": value for name, value in wrong.items()})
    assert not app.exception
    assert len(app.get("plotly_chart")) == 1
    labels = [link.proto.label for link in app.get("page_link")]
    assert labels[:2] == ["Watch the three kernels", "Watch the fused kernel"]


def test_decoding_is_bound_by_memory_on_every_gpu():
    for gpu in ("A100", "B200"):
        shape = {"roofline_q": 1, "roofline_k": 4096, "roofline_gpu": gpu}
        text = words(open_chapter("roofline", roofline_view="Tables", **shape))
        assert "| compute |" not in text
        assert text.count("| memory |") == 8
