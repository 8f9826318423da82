"""The Roofline chapter."""

from tests.app.pages import open_chapter, words


def test_decoding_is_bound_by_memory_on_every_gpu(no_worker):
    for gpu in ("A100", "B200"):
        shape = {"roofline_q": 1, "roofline_k": 4096, "roofline_gpu": gpu}
        app = open_chapter("roofline", roofline_view="Tables", **shape)
        assert (words(app).count("| memory |"), words(app).count("| compute |")) == (8, 0)
