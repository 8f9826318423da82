"""The player as a Streamlit component, and as one HTML file that needs no server."""

from __future__ import annotations

import html
import json
from pathlib import Path

import streamlit as st

from viz.player.modules import one_script

CSS = (Path(__file__).parent / "player.css").read_text(encoding="utf-8")
MOUNT = '<div class="fa-player" role="group" tabindex="-1"></div>'

_component = st.components.v2.component(
    "flash_attention_player", html=MOUNT, css=CSS, js=one_script("component.js")
)


State = dict[str, str]
"""What is remembered of a player, in its own words.

Of one run: "step" is "37" after 37 steps, "37.2" in the second phase of the next one, "gpu:12" at moment 12
of all programs at once; "unit" is "phase" or "program" if it is not "tile"; "row" is the head and number of
the row that was picked, "2.195". Of two runs: "place" is "steps:37" or "race:120".
"""


def show_player(data: dict, key: str, state: State) -> State:
    """Mount the player on `player_data(...)` or `duel_data(...)` in a state; returns its state at last."""
    mounted = {"run": data, "state": state}
    result = _component(key=key, data=mounted, default={"where": None}, on_where_change=lambda: None)
    where = result.where
    return where["state"] if where and where["run"] == data["id"] else state


def export_html(data: dict, state: State | None = None) -> str:
    """The player and its data as one HTML page that needs no other file."""
    # "</" would end the script element early
    payload = json.dumps({"run": data, "state": state or {}}).replace("</", "<\\/")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(data["title"])}</title>
<style>
body {{ margin: 0; padding: 12px; font-family: system-ui, sans-serif; background: Canvas; }}
:root {{ color-scheme: light dark; }}
{CSS}</style></head>
<body>{MOUNT}
<script type="application/json" id="run">{payload}</script>
<script type="module">
{one_script("page.js")}</script></body></html>
"""
