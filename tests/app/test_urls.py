"""Whatever the URL holds, Explore shows a run or a clear message, never a traceback."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernels.problem import AttentionProblem
from tests.app.pages import mounted_player, open_page
from viz.shared import runs

FIELDS = [*AttentionProblem().as_dict(), "preset", "algorithm", "step", "place", "versus", "nonsense"]
NUMBERS = ("nan", "inf", "1e9", "-1", "0", "true", "[1]", "null", "%00", "12.3", "gpu:3", "9" * 5000)
WORDS = [*NUMBERS, "flash2", "backward", "window", "causal"]
VALUES = st.one_of(st.text(max_size=20), st.integers(-10, 10**7).map(str), st.sampled_from(WORDS))


@settings(max_examples=10, deadline=None, derandomize=True)
@example(query={"versus": "flash1", "place": "bytes:" + "9" * 5000})
@given(query=st.dictionaries(st.sampled_from(FIELDS), VALUES, min_size=1, max_size=6))
def test_explore_takes_or_explains_any_url(query):
    with pytest.MonkeyPatch.context() as patch:
        # The widgets are tested here, not the runs that they start.
        patch.setattr(runs, "backend", lambda store: "replay")
        patch.setattr(runs, "run_store", lambda: None)
        patch.setattr("viz.shared.layout.triton_missing", lambda: "no Triton")
        app = open_page(**query)
    assert not app.exception, (query, app.exception[0].value)
    assert mounted_player(app) or app.error or app.info, query
