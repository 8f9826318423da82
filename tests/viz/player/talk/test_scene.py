"""Talks as TOML: what is accepted, what is refused, and that a scene comes back as it was written."""

import pytest

from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS
from viz.player.talk.read import parse_talk, read_talk
from viz.player.talk.scene import InvalidTalk, Scene, Stop
from viz.shared.run_request import RunRequest

GOOD = 'title = "t"\n[[scene]]\ntitle = "One"\nsentence = "s"\nproblem = "tiny"\n'
WITH_CHART = 'title = "t"\n[[scene]]\ntitle = "One"\nsentence = "s"\nchart = {}\n'
TINY, GPT2 = PRESETS["tiny"].problem, PRESETS["gpt2"].problem


def scene_of(text):
    (scene,) = parse_talk(text, "a.toml").scenes
    return scene


def test_what_is_not_given_has_a_default():
    decode = PRESETS["decode"].problem
    custom = AttentionProblem(q_len=40, kv_len=48, head_dim=16)
    for problem, run in {
        '"tiny"': (TINY, "flash2"),
        '"decode"': (decode, "split_kv"),  # a preset brings its algorithm
        '{ preset = "tiny", mask = "causal" }': (TINY.with_(mask="causal"), "flash2"),
        "{ q_len = 40, kv_len = 48, head_dim = 16 }": (custom, "flash2"),
    }.items():
        talk = parse_talk(GOOD.replace('"tiny"', problem), "a.toml")
        assert (talk.title, talk.minutes, talk.scenes) == ("t", 5.0, (Scene("One", "s", RunRequest(*run)),))


def test_the_second_run_of_a_duel_differs_in_what_is_given():
    scene = scene_of(GOOD + 'versus = { block_m = 8, algorithm = "flash1" }\n')
    assert scene.versus == RunRequest(TINY.with_(block_m=8), "flash1")
    assert scene.stops == (Stop("bytes:0"),)


def test_a_run_has_the_own_tiles_of_its_algorithm_unless_others_are_given():
    text = GOOD.replace('"tiny"', '"gpt2"\nalgorithm = "flash3"')
    own = GPT2.with_(block_m=128, block_n=128)
    scene = scene_of(text + 'versus = { algorithm = "flash2" }\n')
    assert (scene.run, scene.versus) == (RunRequest(own, "flash3"), RunRequest(own, "flash2"))
    with pytest.raises(InvalidTalk, match=r"block_m=32 is not accepted: .* 128 x 128 tiles"):
        parse_talk(text.replace('"gpt2"', '{ preset = "gpt2", block_m = 32 }'), "a.toml")


WRONG = {
    GOOD: [
        'view = "chart"',
        'algorithm = "flash9"',
        'step = "1\\n"',
        'stops = [{ step = "1", words = "w" }]',
        "colour = 3",
        "versus = { block_m = 7 }",
    ],
    GOOD + 'versus = { algorithm = "flash1" }\n': ['view = "numbers"', 'step = "37"'],
    WITH_CHART: ['stops = ["4"]', 'problem = "tiny"'],
    WITH_CHART.replace("chart = {}\n", ""): ["chart = { peers = [] }"],
    GOOD.replace('problem = "tiny"\n', ""): ["problem = { q_length = 3 }"],
}
"""Fields that mean something wrong. Those of a wrong type: tests/viz/talk/test_mutated.py."""


@pytest.mark.parametrize(
    ("text", "wrong"), [pytest.param(text, wrong, id=wrong) for text in WRONG for wrong in WRONG[text]]
)
def test_a_wrong_field_is_named_with_file_scene_and_what_is_accepted(text, wrong):
    with pytest.raises(InvalidTalk) as found:
        parse_talk(f"{text}{wrong}\n", "a.toml")
    (line,) = str(found.value).splitlines()
    assert line.startswith("a.toml, scene 1 “One”, ")
    assert wrong.split(" ")[0] in line
    assert line.endswith(".")
    assert not line.endswith("..")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "a.toml: this is not TOML"),
        (GOOD.replace('"tiny"', 4000 * "[" + 4000 * "]"), "a.toml: .*too deep"),
        ("minutes = 1" + 400 * "0" + "\n" + GOOD, "a.toml"),
        (f"minutes = 1{5000 * '0'}\n" + GOOD, "a.toml: .*too large a number"),
        ('title = "t"', "a.toml, .*missing required field `scene`"),
        ('title = "t"\nscene = "x"', "a.toml, scene: "),
        (GOOD.replace('"t"', "3"), "a.toml, title: Expected"),
        (GOOD.replace('"One"', '" "'), "a.toml, scene 1 “ ”, title: "),
        ("minutes = -1\n" + GOOD, "a.toml, minutes: "),
        ("minutes = inf\n" + GOOD, "a.toml, minutes: "),
        ("speaker = 1\n" + GOOD, "a.toml, .*unknown field `speaker`"),
    ],
)
def test_a_wrong_file_is_refused(text, message):
    with pytest.raises(InvalidTalk, match=message):
        parse_talk(text, "a.toml")


def test_a_file_may_begin_with_a_byte_order_mark_and_must_be_text(tmp_path):
    (tmp_path / "bom.toml").write_text(GOOD, encoding="utf-8-sig")
    assert read_talk(tmp_path / "bom.toml").scenes == parse_talk(GOOD, "bom.toml").scenes
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for name in ("none", "binary"):
        with pytest.raises(InvalidTalk, match=rf"^{name}\.toml: the file cannot be read"):
            read_talk(tmp_path / f"{name}.toml")
