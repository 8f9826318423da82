"""For tests through Streamlit's AppTest: the app, opened at a URL."""

from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from tests import ROOT


def open_page(page="", **query):
    """The page at that path of the URL ("" is Explore, "measure" Measure), run once with these parameters."""
    app = AppTest.from_file(ROOT / "app.py", default_timeout=60)
    for name, value in query.items():
        app.query_params[name] = str(value)
    if page:
        app._page_hash = calc_hash(
            page
        )  # switch_page finds a page by its file only after a first, wasted, run of Explore
    return app.run()


def open_chapter(slug, **query):
    """A chapter of the Learn page."""
    return open_page("learn", chapter=slug, **query)
