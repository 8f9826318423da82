"""What a speaker may change of a problem: the values, and what is refused."""

import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.problem import InvalidProblem
from kernels.problem.presets import PRESETS
from viz.player.talk.what_if import Choice, Live, changed, choices_of, good_values

TINY = PRESETS["tiny"].problem


def default_choices(runs, in_numbers):
    return choices_of(good_values(runs[0][0], in_numbers), runs, strict=False)


def alone(problem, algorithm="flash2"):
    return (problem, algorithm), None


@pytest.mark.parametrize("preset", PRESETS)
def test_good_values_are_valid_and_hold_the_present_length_and_mask(preset):
    problem = PRESETS[preset].problem
    choices = default_choices(alone(problem), in_numbers=False)  # each was tried
    assert tuple(choice.name for choice in choices) == Live.__struct_fields__
    present = {choice.name: choice.present(problem) for choice in choices}
    assert min(present["length"], present["mask"]) >= 0


def test_every_choice_of_a_tile_in_its_numbers_keeps_the_numbers():
    choices = default_choices(alone(TINY), in_numbers=True)
    assert max(values(choices)["head_dim"]) == 64
    for choice in choices:
        for index in (0, len(choice.values) - 1) if choice.name in ("head_dim", "tiles") else ():
            run, _ = changed(alone(TINY), choices, {choice.name: index})
            assert run_traced(*run).matrices


def test_one_query_stays_one_query():
    decode = PRESETS["decode"].problem
    longer = Choice("length", (2 * decode.kv_len,)).changes(decode, 0)
    assert decode.with_(**longer).q_len == decode.q_len == 1
    assert Choice("length", (64,)).changes(TINY, 0) == {"q_len": 64, "kv_len": 64}


def test_picks_add_up():
    choices = choices_of(Live([48, 64], tiles=[(8, 4)], mask=["causal"]), alone(TINY))
    run, _ = changed(alone(TINY), choices, {"length": 1, "tiles": 0, "mask": 0})
    assert run == (TINY.with_(q_len=64, kv_len=64, block_m=8, block_n=4, mask="causal"), "flash2")
    assert changed(alone(TINY), choices, {}) == alone(TINY)


@pytest.mark.parametrize(
    "picks", [{"length": 2}, {"length": -1}, {"length": "0"}, {"length": True}, {"dtype": 0}, {"length": 0.0}]
)
def test_what_is_not_a_choice_is_refused(picks):
    with pytest.raises(InvalidProblem, match="expected the number of a value of length"):
        changed(alone(TINY), (Choice("length", (48, 64)),), picks)


GPT2 = ALGORITHMS["flash3"].with_own_tiles(PRESETS["gpt2"].problem)


def values(choices):
    return {choice.name: choice.values for choice in choices}


def test_good_values_are_those_that_both_runs_take():
    longest = TINY.with_(q_len=600_000, kv_len=600_000)
    assert values(default_choices(alone(longest), True))["length"] == (150_000, 300_000, 600_000)
    for runs in (alone(GPT2, "flash3"), ((GPT2, "flash2"), (GPT2, "flash3"))):
        offered = values(default_choices(runs, in_numbers=False))
        assert offered["head_dim"] == (64, 128)
        assert "tiles" not in offered
        assert offered["mask"] == ("full", "causal", "window")
    assert "sinks" in values(default_choices(alone(GPT2), in_numbers=False))["mask"]


def test_an_algorithm_with_tiles_of_its_own_has_those_of_the_changed_problem():
    choices = choices_of(Live(head_dim=[64, 256], tiles=[(128, 128)]), alone(GPT2, "flash3"))
    wide = GPT2.with_(head_dim=256, block_n=64)
    assert changed(alone(GPT2, "flash3"), choices, {"head_dim": 1}) == alone(wide, "flash3")
    both = (GPT2, "flash3"), (GPT2, "flash2")
    assert changed(both, choices, {"head_dim": 1}) == ((wide, "flash3"), (wide, "flash2"))
    own = GPT2.with_(block_m=64)
    assert changed(((GPT2, "flash3"), (own, "flash2")), choices, {"head_dim": 1})[1] == (
        own.with_(head_dim=256),
        "flash2",
    )
    with pytest.raises(InvalidProblem, match=r"block_n=128 is not accepted: with head_dim 256, .*128 x 64"):
        changed(alone(GPT2, "flash3"), choices, {"head_dim": 1, "tiles": 0})
