"""Talks as TOML: what is accepted, what is refused, and that a scene comes back as it was written."""

import pytest

from kernels.problem import AttentionProblem
from kernels.problem.presets import PRESETS
from viz.player.scene import InvalidTalk, RunName, Scene, Stop, parse_talk, read_talk, scene_toml

GOOD = 'title = "t"\n[[scene]]\ntitle = "One"\nsentence = "s"\nproblem = "tiny"\n'


def test_what_is_not_given_has_a_default():
    talk = parse_talk(GOOD, "a.toml")
    (scene,) = talk.scenes
    assert (talk.title, talk.minutes) == ("t", 5.0)
    assert scene == Scene("One", "s", RunName(PRESETS["tiny"].problem, "flash2"))


def test_a_preset_brings_its_algorithm():
    (scene,) = parse_talk(GOOD.replace("tiny", "decode"), "a.toml").scenes
    assert scene.run.algorithm == "split_kv"


def test_a_problem_may_be_a_preset_with_changes_or_all_fields():
    (scene,) = parse_talk(GOOD.replace('"tiny"', '{ preset = "tiny", mask = "causal" }'), "a.toml").scenes
    assert scene.run.problem == PRESETS["tiny"].problem.with_(mask="causal")
    (scene,) = parse_talk(GOOD.replace('"tiny"', "{ q_len = 40, kv_len = 48, head_dim = 16 }"), "a").scenes
    assert scene.run.problem == AttentionProblem(q_len=40, kv_len=48, head_dim=16)


def test_the_second_run_of_a_duel_differs_in_what_is_given():
    (scene,) = parse_talk(GOOD + 'versus = { block_m = 8, algorithm = "flash1" }\n', "a.toml").scenes
    assert scene.versus == RunName(PRESETS["tiny"].problem.with_(block_m=8), "flash1")
    assert scene.stops == (Stop("race:0"),)


def test_a_run_has_the_own_tiles_of_its_algorithm_unless_others_are_given():
    text = GOOD.replace('"tiny"', '"gpt2"\nalgorithm = "flash3"')
    own = PRESETS["gpt2"].problem.with_(block_m=128, block_n=128)
    (scene,) = parse_talk(text + 'versus = { algorithm = "flash2" }\n', "a.toml").scenes
    assert (scene.run, scene.versus) == (RunName(own, "flash3"), RunName(own, "flash2"))
    assert parse_talk('title = "t"\n' + scene_toml(scene), "a.toml").scenes == (scene,)
    with pytest.raises(InvalidTalk, match=r"block_m=32 is not accepted: .* 128 x 128 tiles"):
        parse_talk(text.replace('"gpt2"', '{ preset = "gpt2", block_m = 32 }'), "a.toml")
    with pytest.raises(InvalidTalk, match="head_dim=16 is not accepted"):
        parse_talk(text.replace('"gpt2"', '"tiny"'), "a.toml")


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ('view = "chart"', r"a\.toml, scene 1 “One”, view: .*chart.*expected one of grid, numbers"),
        ('algorithm = "flash9"', r"algorithm: .*flash9.*expected one of"),
        ('step = "x"', r"scene 1 “One”, step: .*expected \"37\""),
        ('step = "race:3"', r"step: .*race:3"),
        ('stops = ["1", 2]', r"stops: 2; expected a place"),
        ('stops = [{ step = "1", words = "w" }]', r"stops: .*expected a place"),
        ('stops = "3"', r"stops: .*expected a list"),
        ('hidden = ["title"]', r"hidden: .*title.*sentence, picture"),
        ("hidden = [{}]", r"hidden: "),
        ('hidden = ["state"]', r"hidden: .*state.*expected .*only with view = .numbers"),
        ('row = "3"', r"row: .*0\.20"),
        ("tells = 1", r"tells: 1; expected true or false"),
        ("gpu = 3", r"gpu: 3; expected a text"),
        ('gpu = "GTX"', r"gpu: .*GTX.*H200"),
        ("colour = 3", r"colour: this field is not known; known are title, sentence"),
        ("versus = 3", r"versus: 3; expected a table"),
        ('versus = { algorithm = "x" }', r"versus: .*algorithm among"),
        ("versus = { block_m = 7 }", r"versus: .*block_m"),
        ('versus = { algorithm = "flash1" }\nview = "numbers"', r"view: .*grid, mask, bytes"),
    ],
    ids=lambda text: text if "=" in text else "",
)
def test_a_wrong_field_is_named_with_file_and_scene(added, message):
    with pytest.raises(InvalidTalk, match=message) as found:
        parse_talk(GOOD + added + "\n", "a.toml")
    assert all(line.startswith("a.toml, scene 1 “One”, ") for line in str(found.value).splitlines())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = ", "a.toml: this is not TOML"),
        ("title = " + 400 * "[" + 400 * "]", "a.toml: .*at most 32 levels"),
        ("title" + 400 * ".a" + " = 1", "a.toml: .*at most 32 levels"),
        (f"minutes = 1{400 * '0'}", "a.toml: .*a whole number of more than 64 bits"),
        (f"minutes = 1{5000 * '0'}", "a.toml: .*a whole number of more than 64 bits"),
        (f"minutes = 0x{5000 * 'f'}", "a.toml: .*a whole number of more than 64 bits"),
        ('title = "t"', "a.toml, scene: nothing is given"),
        ('title = "t"\nscene = [3]', "a.toml, scene 1, title: nothing is given"),
        ('title = "t"\nscene = "x"', "a.toml, scene: "),
        (GOOD.replace('"t"', "3"), "a.toml, title: 3; expected a text"),
        ("minutes = -1\n" + GOOD, "a.toml, minutes: -1"),
        ("minutes = true\n" + GOOD, "a.toml, minutes: true"),
        ("minutes = inf\n" + GOOD, "a.toml, minutes: Infinity"),
        (GOOD + 'versus = { algorithm = ["x"] }\n', r"versus: \[\"x\"\]"),
        (GOOD + 'versus = { preset = ["x"] }\n', r"versus: \[\"x\"\]"),
        ("speaker = 1\n" + GOOD, "a.toml, speaker: this field is not known"),
        (GOOD.replace('"tiny"', '"small"'), "problem: .*small.*one of gpt2"),
        (GOOD.replace('"tiny"', "{ q_length = 3 }"), "problem: .*q_length.*q_len"),
        (GOOD.replace('"tiny"', '{ preset = "tiny", q_len = -3 }'), "problem: .*q_len"),
        (GOOD.replace('"tiny"', '{ preset = "tiny", q_len = "many" }'), "problem: "),
        (GOOD.replace('"tiny"', "[]"), "problem: "),
    ],
)
def test_a_wrong_file_is_refused(text, message):
    with pytest.raises(InvalidTalk, match=message):
        parse_talk(text, "a.toml")


@pytest.mark.parametrize(
    "added", ["versus = { block_m = 7 }", "live = { tiles = [[7, 7]] }", "chart = { metric = 3 }", "x = 1"]
)
def test_a_message_ends_with_one_full_stop(added):
    with pytest.raises(InvalidTalk) as found:
        parse_talk(GOOD + added + "\n", "a.toml")
    for line in str(found.value).splitlines():
        assert line.endswith(".")
        assert not line.endswith("..")


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "bom.toml").write_text(GOOD, encoding="utf-8-sig")
    assert read_talk(tmp_path / "bom.toml").scenes == parse_talk(GOOD, "bom.toml").scenes


def test_all_findings_are_told_at_once():
    with pytest.raises(InvalidTalk) as found:
        parse_talk(GOOD + 'view = "x"\nrow = "y"\n[[scene]]\ntitle = "Two"\n', "a.toml")
    assert len(str(found.value).splitlines()) == 4  # view, row; sentence and problem of the second scene


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(InvalidTalk, match=r"none\.toml: the file cannot be read"):
        read_talk(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidTalk, match=r"binary\.toml: the file cannot be read as UTF-8"):
        read_talk(tmp_path / "binary.toml")


@pytest.mark.parametrize(
    "scene",
    [
        Scene('Quotes " and \\', "s\nt", RunName(PRESETS["tiny"].problem, "flash2")),
        Scene(
            "All",
            "{steps} → α",
            RunName(PRESETS["gpt2"].problem.with_(q_len=100), "flash1"),
            (Stop("steps:1"), Stop("steps:2", "then")),
            RunName(PRESETS["gpt2"].problem.with_(q_len=100, block_m=32), "flash2"),
            notes="several\nlines",
            view="bytes",
            row="0.3",
            hidden=("sentence", "code"),
            tells=True,
            gpu="A100",
        ),
    ],
    ids=["plain", "all fields"],
)
def test_a_scene_comes_back_as_it_was_written(scene):
    assert parse_talk('title = "t"\n' + scene_toml(scene), "a.toml").scenes == (scene,)
