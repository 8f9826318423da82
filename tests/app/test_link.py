"""A link whose values no widget takes: the page shows its defaults, and says so."""

import pytest

from tests.app.pages import open_chapter, open_page


def toasts(app):
    assert not app.exception
    return [toast.value for toast in app.toast]


@pytest.mark.parametrize(
    ("page", "query", "said"),
    [
        ("measure", {"hd": "77"}, "hd=77 in the link is not accepted. Shown is 64."),
        ("measure", {"which": "sideways"}, "which=sideways in the link is not accepted. Shown is forward."),
        ("measure", {"chart": "heat"}, "chart=heat in the link is not accepted. Shown is time."),
        ("check", {"kernel": "mine"}, "kernel=mine in the link is not accepted. Shown is flash_attention."),
        ("check", {"repeats": "999"}, "repeats=999 in the link is not accepted. Shown is 3."),
        (
            "check",
            {"view": "grid", "dtypes": "int8"},
            "dtypes=int8 in the link is not accepted. Shown is float16.",
        ),
    ],
)
def test_a_value_that_a_widget_does_not_take_is_named(page, query, said):
    app = open_page(page, **query)
    assert toasts(app) == [said]
    assert toasts(app.run()) == []


@pytest.mark.parametrize(
    ("page", "query"),
    [
        (
            "measure",
            {"hd": "128", "which": "both", "chart": "TFLOP/s", "masking": "causal", "peers": ["ours", "fa4"]},
        ),
        (
            "measure",
            {"hd": "64", "which": "forward", "chart": "time", "masking": "full", "element": "float16"},
        ),
        ("check", {"kernel": "flash2", "repeats": "2", "gradients": "false", "view": "case"}),
        ("check", {"kernel": "flash_attention", "repeats": "3", "gradients": "true", "layout": "contiguous"}),
        ("check", {"view": "grid", "dtypes": ["float16", "bfloat16"], "masks": ["full", "causal"]}),
        ("", {"q_len": "96", "mask": "causal", "algorithm": "flash1", "step": "3", "row": "0.20"}),
        ("", {}),
    ],
)
def test_values_that_are_taken_and_defaults_are_not(page, query):
    assert toasts(open_page(page, **query)) == []


def test_a_value_of_the_problem_has_one_message():
    app = open_page(q_len="-5")
    assert toasts(app) == []
    assert [warning.value for warning in app.warning if "q_len=-5" in warning.value]


def test_chapters_say_it_too():
    assert toasts(open_chapter("roofline", roofline_others="perhaps")) == [
        "roofline_others=perhaps in the link is not accepted. Shown is False."
    ]


def test_a_second_algorithm_that_does_not_exist_is_named():
    app = open_page(versus="flash9")
    assert any("versus=flash9 in the link is not accepted" in warning.value for warning in app.warning)
