"""The part of the page that models more GPUs than were recorded."""

import pytest

from tests.app.pages import run_script, words


def panel():
    from viz.ranks.worlds import worlds_panel

    worlds_panel()


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("ranks", [2, 8, 64, 4096])
def test_every_number_of_gpus_has_its_table(ranks, direction):
    app = run_script(panel, worlds_gpus=ranks, worlds_direction=direction)
    table = app.markdown[0].value
    assert table.count("%") == 4
    assert ("all-to-all in a node" in table) is (ranks > 8)
    said = words(app)
    assert "is the fastest way from" in said
    assert "**Modelled** for 32 query heads over 8" in said
    assert said.count("over 8 heads") + said.count("over 16 heads") == 34


def test_too_much_for_a_gpu_is_said():
    assert "**too much**" in run_script(panel, worlds_tokens="10M", worlds_gpus=2).markdown[0].value
