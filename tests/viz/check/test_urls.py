"""URLs of the Check page may hold anything."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.device.backend import DeviceInfo
from kernels.problem import AttentionProblem
from tests.app.pages import open_page as open_app
from tests.viz.check.pages import page
from viz.shared import runs

GRID = ["shapes", "head_dims", "dtypes", "masks", "repeats", "kernel"]
FIELDS = [*AttentionProblem().as_dict(), *GRID, "gradients", "view", "judge", "map", "tile", "preset"]
VALUES = st.one_of(
    st.text(max_size=20),
    st.integers(-10, 10**7).map(str),
    st.sampled_from(["nan", "1e9", "true", "[1]", "grid", "case", "user", "flash2", "null", "%00"]),
)
READY = SimpleNamespace(
    client=SimpleNamespace(device=DeviceInfo("interpreter", "cpu", "2", "3", "3.12"), start_failure=None)
)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    query=st.dictionaries(st.sampled_from(FIELDS), VALUES, min_size=1, max_size=6),
    grid=st.dictionaries(st.sampled_from(GRID), VALUES, min_size=1, max_size=4),
)
def test_a_url_may_hold_anything(query, grid):
    """Its widgets are the point, not what they start."""
    for store, given_query in ((None, query), (READY, grid | {"view": "grid"})):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runs, "run_store", lambda store=store: store)
            app = page()
            for name, value in given_query.items():
                app.query_params[name] = value
            app.run()
        assert not app.exception, (given_query, app.exception[0].value)


@pytest.mark.parametrize("page", ["check", "", "measure"])
def test_an_infinite_number_in_the_url_gives_the_default(page):
    """The app takes it out of the URL before a page sees it."""
    app = open_app(page, batch="inf", seqs="-Infinity", repeats="1e999")
    assert not app.exception
    assert {number.value for number in app.number_input if number.key in ("batch", "seqs")} == {1}
