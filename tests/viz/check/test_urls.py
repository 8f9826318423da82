"""URLs of the Check page may hold anything."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from kernels.problem import AttentionProblem
from tests import ROOT
from tests.viz.check.pages import open_page, page
from viz.shared import runs

FIELDS = [
    *AttentionProblem().as_dict(),
    "kernel",
    "gradients",
    "repeats",
    "view",
    "judge",
    "map",
    "tile",
    "shapes",
    "head_dims",
    "dtypes",
    "masks",
    "preset",
]
VALUES = st.one_of(
    st.text(max_size=20),
    st.integers(-10, 10**7).map(str),
    st.sampled_from(["nan", "inf", "1e9", "true", "[1]", "grid", "case", "user", "flash2", "null", "%00"]),
)


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(query=st.dictionaries(st.sampled_from(FIELDS), VALUES, min_size=1, max_size=6))
def test_a_url_may_hold_anything(query):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            runs, "backend", lambda store: "replay"
        )  # the widgets are the point, not what they start
        patch.setattr(runs, "run_store", lambda: None)
        patch.setattr("viz.shared.layout.triton_missing", lambda: "no Triton")
        app = page()
        for name, value in query.items():
            app.query_params[name] = value
        app.run()
    assert not app.exception, (query, app.exception[0].value)


@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    query=st.dictionaries(
        st.sampled_from(["shapes", "head_dims", "dtypes", "masks", "repeats", "kernel"]),
        VALUES,
        min_size=1,
        max_size=4,
    )
)
def test_the_grid_takes_or_explains_any_url(query):
    app = open_page(view="grid", **query)
    assert not app.exception, (query, app.exception[0].value)


@pytest.mark.parametrize("page", ["check", "explore", "measure"])
@pytest.mark.parametrize("value", ["inf", "-Infinity", "1e999"])
def test_an_infinite_number_in_the_url_gives_the_default(page, value):
    app = AppTest.from_file(ROOT / "viz" / page / "page.py", default_timeout=60)
    for name in ("batch", "seqs", "repeats"):
        app.query_params[name] = value
    app.run()
    assert not app.exception
    assert "finite number" in app.toast[0].value
    assert {number.value for number in app.number_input if number.key in ("batch", "seqs")} == {1}
