"""What a page of Learn shows, by kind."""

from urllib.parse import parse_qs

from tests.app.pages import words

PARTS = {
    "softmax": "softmax_part",
    "tiling": "tiling_part",
    "io": "io_view",
    "roofline": "roofline_view",
    "gradients": "gradients_view",
    "after": "after_topic",
}
"""By what control the parts of a chapter are chosen."""


def html(app):
    """All pictures that are HTML."""
    return " ".join(element.proto.body for element in app.get("html"))


def formulas(app):
    """All formulas that stand alone."""
    return " ".join(element.value for element in app.latex)


def everything(app):
    """All that a page shows, charts and pictures included."""
    texts = [element.value for element in app.subheader] + [toggle.label for toggle in app.toggle]
    charts = [chart.proto.spec for chart in app.get("plotly_chart")]
    return "\n".join([words(app), formulas(app), html(app), *texts, *charts])


def links(app):
    """The URL parameters of each link to Explore."""
    return [
        {name: values[0] for name, values in parse_qs(link.proto.query_string).items()}
        for link in app.get("page_link")
        if "algorithm=" in link.proto.query_string
    ]


def metrics(app):
    """Label of a card -> (value, what it is compared with)."""
    return {metric.label: (metric.value, metric.delta) for metric in app.metric}


def errors(app):
    """Messages of a page that was drawn without an exception."""
    assert not app.exception
    return [error.value for error in app.error]
