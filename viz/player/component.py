"""The player as a Streamlit component, and as one HTML file that needs no server."""

from __future__ import annotations

import json
from pathlib import Path

import streamlit as st

FOLDER = Path(__file__).parent
SCRIPTS = (
    "model.js",
    "timeline.js",
    "stage.js",
    "chip.js",
    "rows.js",
    "words.js",
    "dom.js",
    "player.js",
    "duel.js",
)
MOUNT = '<div class="fa-player" role="group" tabindex="-1"></div>'


def _read(*names: str) -> str:
    return "\n".join((FOLDER / name).read_text() for name in names)


_component = st.components.v2.component(
    "flash_attention_player", html=MOUNT, css=_read("player.css"), js=_read(*SCRIPTS, "component.js")
)


def show_player(data: dict, key: str, place: str = "0") -> str:
    """Mount the player on `player_data(...)` or `duel_data(...)`. `place` is where it starts; returns where it stands after the last move.

    Places are the player's own words: "37" after 37 steps, "37.2" in the second phase of the next one, "gpu:12"; of two runs "race:120".
    """
    result = _component(
        key=key, data={"run": data, "place": place}, default={"where": None}, on_where_change=lambda: None
    )
    where = result.where
    return where["place"] if where and where["run"] == data["id"] else place


def export_html(data: dict, place: str = "0") -> str:
    """The player and its data as one self-contained HTML page."""
    # "</" would end the script element early
    payload = json.dumps({"run": data, "place": place}).replace("</", "<\\/")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{data["title"]}</title>
<style>body {{ margin: 0; padding: 12px; font-family: system-ui, sans-serif; background: Canvas; }}
:root {{ color-scheme: light dark; }}
{_read("player.css")}</style></head>
<body>{MOUNT}
<script type="application/json" id="run">{payload}</script>
<script type="module">
{_read(*SCRIPTS)}
const {{ run, place }} = JSON.parse(document.getElementById("run").textContent);
const player = new (run.runs ? Duel : Player)(document.querySelector(".fa-player"), (where) => history.replaceState(null, "", `#${{where}}`));
player.load(run, location.hash.slice(1) || place);
</script></body></html>
"""
