"""The Roofline chapter."""

import pytest

from tests.app.pages import open_chapter, words

pytestmark = pytest.mark.usefixtures("no_worker")


def test_decoding_is_bound_by_memory_on_every_gpu():
    for gpu in ("A100", "B200"):
        shape = {"roofline_q": 1, "roofline_k": 4096, "roofline_gpu": gpu}
        text = words(open_chapter("roofline", roofline_view="Tables", **shape))
        assert "| compute |" not in text
        assert text.count("| memory |") == 8
