"""Both appearances, for figures that must read well in either."""

import pytest

from viz.shared.theme import DARK, LIGHT


@pytest.fixture(params=[LIGHT, DARK], ids=["light", "dark"])
def colors(request):
    return request.param
