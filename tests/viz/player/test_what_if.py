"""What a speaker may change of a problem: the values, and what is refused."""

import pytest

from kernels.algorithms import run_traced
from kernels.problem import AttentionProblem, InvalidProblem
from kernels.problem.presets import PRESETS
from viz.player.scene import InvalidTalk, parse_talk, scene_toml
from viz.player.what_if import NAMES, Choice, changed, default_choices, read_choices

TINY = PRESETS["tiny"].problem
SCENE = 'title = "t"\n[[scene]]\ntitle = "One"\nsentence = "s"\nproblem = "tiny"\n'


@pytest.mark.parametrize("preset", PRESETS)
def test_good_values_are_valid_and_hold_the_present_length_and_mask(preset):
    problem = PRESETS[preset].problem
    choices = default_choices(problem, in_numbers=False)
    assert tuple(choice.name for choice in choices) == NAMES
    for choice in choices:
        for index in range(len(choice.values)):
            changed(problem, choices, {choice.name: index})  # raises nothing
    by_name = {choice.name: choice for choice in choices}
    assert by_name["length"].present(problem) >= 0
    assert by_name["mask"].present(problem) >= 0


def test_every_choice_of_a_tile_in_its_numbers_keeps_the_numbers():
    choices = default_choices(TINY, in_numbers=True)
    assert max(choices[NAMES.index("head_dim")].values) == 64
    for choice in choices:
        if choice.name in ("head_dim", "tiles"):
            for index in range(len(choice.values)):
                run = run_traced(changed(TINY, choices, {choice.name: index}), "flash2")
                assert run.matrices


def test_one_query_stays_one_query():
    decode = PRESETS["decode"].problem
    longer = Choice("length", (2 * decode.kv_len,)).changes(decode, 0)
    assert decode.with_(**longer).q_len == decode.q_len == 1
    assert Choice("length", (64,)).changes(TINY, 0) == {"q_len": 64, "kv_len": 64}


def test_picks_add_up():
    choices = read_choices({"length": [48, 64], "tiles": [[8, 4]], "mask": ["causal"]}, TINY)
    problem = changed(TINY, choices, {"length": 1, "tiles": 0, "mask": 0})
    assert problem == TINY.with_(q_len=64, kv_len=64, block_m=8, block_n=4, mask="causal")
    assert changed(TINY, choices, {}) == TINY


@pytest.mark.parametrize(
    "picks", [{"length": 2}, {"length": -1}, {"length": "0"}, {"length": True}, {"dtype": 0}, {"length": 0.0}]
)
def test_what_is_not_a_choice_is_refused(picks):
    with pytest.raises(InvalidProblem, match="expected the number of a value of length"):
        changed(TINY, (Choice("length", (48, 64)),), picks)


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
