"""Both appearances, for figures that must read well in either."""

import pytest

from viz.theme import DARK, LIGHT


@pytest.fixture(params=[LIGHT, DARK], ids=["light", "dark"])
def colors(request):
    return request.param
