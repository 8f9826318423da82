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


def show_player(data: dict, key: str, place: str = "0") -> str:
    """Mount the player on `player_data(...)` or `duel_data(...)`; returns where it stands at last.

    `place` is where it starts. Places are the player's own words: "37" is after 37 steps, "37.2" is in the
    second phase of the next one, "gpu:12" is moment 12 of all programs at once. With two runs they are
    "steps:37" or "race:120".
    """
    mounted = {"run": data, "place": place}
    result = _component(key=key, data=mounted, default={"where": None}, on_where_change=lambda: None)
    where = result.where
    return where["place"] if where and where["run"] == data["id"] else place


def export_html(data: dict, place: str = "0") -> str:
    """The player and its data as one HTML page that needs no other file."""
    # "</" would end the script element early
    payload = json.dumps({"run": data, "place": place}).replace("</", "<\\/")
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
