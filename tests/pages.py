"""For tests through Streamlit's AppTest: the app, opened at a URL."""

from pathlib import Path

from streamlit.testing.v1 import AppTest

APP = Path(__file__).resolve().parents[1] / "app.py"


def open_page(page="", **query):
    """Explore, or the page of that file such as "viz/pages/measure.py", run once with these parameters in its URL."""
    app = AppTest.from_file(APP, default_timeout=60)
    for name, value in query.items():
        app.query_params[name] = str(value)
    if page:
        app.switch_page(page)
    return app.run()


def open_chapter(slug, **query):
    """A chapter of the Learn page."""
    return open_page("viz/pages/learn.py", chapter=slug, **query)
