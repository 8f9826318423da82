"""Both appearances, for figures that must read well in either, and the hand-built curves."""

import pytest

from kernels.measure.series import peer_curves
from tests.kernels.documents import VIEW, document
from viz.shared.theme import DARK, LIGHT


@pytest.fixture(params=[LIGHT, DARK], ids=["light", "dark"])
def colors(request):
    return request.param


@pytest.fixture
def swept():
    return peer_curves("recorded", document().measurements, VIEW)
