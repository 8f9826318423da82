"""What a speaker may change of a problem: the values, and what is refused."""

import pytest

from kernels.algorithms import ALGORITHMS, run_traced
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.presets import PRESETS
from viz.player.scene import InvalidTalk, parse_talk, scene_toml
from viz.player.what_if import NAMES, Choice, changed, default_choices, read_choices

TINY = PRESETS["tiny"].problem
SCENE = 'title = "t"\n[[scene]]\ntitle = "One"\nsentence = "s"\nproblem = "tiny"\n'


def alone(problem, algorithm="flash2"):
    return (problem, algorithm), None


@pytest.mark.parametrize("preset", PRESETS)
def test_good_values_are_valid_and_hold_the_present_length_and_mask(preset):
    problem = PRESETS[preset].problem
    choices = default_choices(alone(problem), in_numbers=False)
    assert tuple(choice.name for choice in choices) == NAMES
    for choice in choices:
        for index in range(len(choice.values)):
            changed(alone(problem), choices, {choice.name: index})  # raises nothing
    by_name = {choice.name: choice for choice in choices}
    assert by_name["length"].present(problem) >= 0
    assert by_name["mask"].present(problem) >= 0


def test_every_choice_of_a_tile_in_its_numbers_keeps_the_numbers():
    choices = default_choices(alone(TINY), in_numbers=True)
    assert max(choices[NAMES.index("head_dim")].values) == 64
    for choice in choices:
        if choice.name in ("head_dim", "tiles"):
            for index in range(len(choice.values)):
                run, _ = changed(alone(TINY), choices, {choice.name: index})
                assert run_traced(*run).matrices


def test_one_query_stays_one_query():
    decode = PRESETS["decode"].problem
    longer = Choice("length", (2 * decode.kv_len,)).changes(decode, 0)
    assert decode.with_(**longer).q_len == decode.q_len == 1
    assert Choice("length", (64,)).changes(TINY, 0) == {"q_len": 64, "kv_len": 64}


def test_picks_add_up():
    choices = read_choices({"length": [48, 64], "tiles": [[8, 4]], "mask": ["causal"]}, alone(TINY))
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
        assert offered["mask"] == values(default_choices(alone(GPT2), in_numbers=False))["mask"]


def test_an_algorithm_with_tiles_of_its_own_has_those_of_the_changed_problem():
    choices = read_choices({"head_dim": [64, 256], "tiles": [[128, 128]]}, alone(GPT2, "flash3"))
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


@pytest.mark.parametrize(
    ("scene", "live", "message"),
    [
        ('algorithm = "flash3"', "head_dim = [64, 16]", "scene 1 “One”, live: .*head_dim=16 is not accepted"),
        ('versus = { algorithm = "flash3" }', "head_dim = [16]", "live: .*head_dim=16 is not accepted"),
        ('algorithm = "flash3"', "tiles = [[128, 128], [64, 128]]", "live: .*block_m=64 .*128 x 128 tiles"),
        ("", "length = [1024, 2000000]", "live: .*=2000000 is not accepted: expected 1 to 1048576"),
    ],
)
def test_a_given_value_that_a_run_does_not_take_is_named(scene, live, message):
    with pytest.raises(InvalidTalk, match=message):
        parse_talk(f"{SCENE.replace('tiny', 'gpt2')}{scene}\nlive = {{ {live} }}\n", "a.toml")


def test_words_and_the_present_value():
    assert Choice("tiles", ((64, 32),)).words(0) == "64 × 32"
    assert Choice("length", (1024,)).words(0) == "1,024"
    assert Choice("mask", ("full", "causal")).present(AttentionProblem(mask="causal")) == 1
    assert Choice("length", (48,)).present(AttentionProblem()) == -1


def test_a_scene_keeps_its_choices():
    for live in ("true", '{ head_dim = [32, 64], tiles = [[8, 4], [16, 8]], mask = ["full", "causal"] }'):
        talk = parse_talk(f"{SCENE}live = {live}\n", "a.toml")
        assert talk.scenes[0].live
        assert parse_talk('title = "t"\n' + scene_toml(talk.scenes[0]), "a.toml").scenes == talk.scenes
    assert parse_talk(SCENE + "live = false\n", "a.toml").scenes[0].live == ()


@pytest.mark.parametrize(
    ("live", "message"),
    [
        ("3", "live: 3; expected true, or a table"),
        ("{ width = [3] }", "width.*expected length, head_dim, mask, tiles"),
        ("{ length = 512 }", "length=512.*list of 1 to 9 values"),
        ("{ length = [1,2,3,4,5,6,7,8,9,10] }", "list of 1 to 9 values"),
        ("{ length = [0] }", "kv_len=0|q_len=0"),
        ("{ length = [true] }", "expected whole numbers"),
        ("{ mask = [3] }", "expected masks such as"),
        ('{ mask = ["round"] }', "mask='round'"),
        ("{ tiles = [64] }", r"pairs of rows and keys such as \[64, 32\]"),
        ("{ tiles = [[64, 7]] }", "block_n=7"),
    ],
)
def test_wrong_choices_are_named(live, message):
    with pytest.raises(InvalidTalk, match=message):
        parse_talk(f"{SCENE}live = {live}\n", "a.toml")
