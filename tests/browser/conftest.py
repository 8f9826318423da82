"""Pages of the app in a browser."""

import pytest

from tests.browser.visit import Visit


@pytest.fixture
def visit(browser, url):
    visits = []

    def open_page(path="/", **context):
        visits.append(Visit(browser, path if path.startswith("file:") else url + path, **context))
        return visits[-1]

    yield open_page
    for page in visits:
        page.context.close()
