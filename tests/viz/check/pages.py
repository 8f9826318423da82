"""The Check page by itself, and what it shows."""

import io
import time

import numpy as np
from streamlit.testing.v1 import AppTest

from tests import ROOT
from viz.shared import runs

SMALL = {"q_len": 40, "kv_len": 48, "block_m": 16, "block_n": 32, "head_dim": 16, "mask": "full", "seed": 1}
VERDICTS = ("PASSES", "FAILS", "NOT CHECKED", "NO VERDICT")


def page(timeout=60):
    """The Check page by itself, as navigation runs it; the URL is set on it before `run`."""
    return AppTest.from_file(ROOT / "viz" / "check" / "page.py", default_timeout=timeout)


def open_page(**query):
    store = runs.run_store()
    assert store.client.wait_ready(60)
    app = page()
    for name, value in query.items():
        app.query_params[name] = str(value)
    return app.run()


def settled(app, until, limit_s=60):
    """Run again until the page shows what it waits for: fragments do not run by themselves here."""
    deadline = time.monotonic() + limit_s
    while not until(app) and time.monotonic() < deadline:
        time.sleep(0.2)
        app.run()
    assert until(app), [element.value for element in (*app.markdown, *app.error, *app.info)]
    assert not app.exception
    return app


def words(app):
    shown = (*app.markdown, *app.caption, *app.error, *app.info)
    return "\n".join(element.value for element in shown).replace("\\", "")  # as Markdown shows them


def metrics(app):
    return {metric.label: (metric.value, metric.delta) for metric in app.metric}


def has_verdict(app):
    return any(verdict in element.value for element in app.markdown for verdict in VERDICTS)


def checked(app=None, **query):
    """The page with its verdict: a new one with this URL, or one that is open."""
    return settled(app or open_page(**SMALL | query), has_verdict)


def run_all(app):
    """The page once all cases of its grid or battery have run."""
    next(button for button in app.button if button.label.startswith("Run ")).click().run()
    return settled(app, lambda app: "open its case" in words(app))


def file_of(**named):
    buffer = io.BytesIO()
    np.savez(buffer, **named)
    return buffer.getvalue()


def tensors(factor=1.0):
    """Q, K, V and an O of which one element is off by a factor."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 2, 20, 16)).astype(np.float32) for _ in range(3))
    scores = q.astype(float) @ k.transpose(0, 1, 3, 2) / 4.0
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    o = (weights / weights.sum(axis=-1, keepdims=True)) @ v
    o[0, 1, 7, 3] *= factor
    return {"q": q, "k": k, "v": v, "o": o.astype(np.float32)}


def upload(app, data, name="mine.npz"):
    app.file_uploader[0].upload(name, data, "application/octet-stream")
    return app.run()
