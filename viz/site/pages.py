"""The files of the site: one page, a script for each recording, and the talks."""

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from string import Template

from kernels.algorithms import ALGORITHMS, FIRST
from kernels.compare import markdown_table, time_ratios
from kernels.device.gpus import DEFAULT_GPU, GPUS
from kernels.measure.measurement import DIRECTIONS
from kernels.problem.presets import FIRST_VISIT, LANE_PROBLEMS, PRESETS
from kernels.recordings import recorded_document, recorded_ranks
from kernels.trace import Trace
from viz.player.data import film, player_data, title_of
from viz.player.html_page import CSS, html_page, json_element, style_sheets
from viz.player.lanes import lanes_data, recorded_lane_runs
from viz.player.ranks import ranks_data
from viz.player.ranks import title_of as title_of_ranks
from viz.player.talk.chart import Chart, chart_data
from viz.player.talk.data import export_talk, run_figures, talk_data
from viz.player.talk.read import read_talk
from viz.shared import theme
from viz.shared.formats import problem_words
from viz.shared.provenance import measurement_source, trace_provenance
from viz.shared.runs import Run, recorded
from viz.talk.shipped import NAMES, recorded_runs, talk_path

GPU = GPUS[DEFAULT_GPU]
PEERS = ("naive", "sdpa_flash", "sdpa_cudnn", "fa4", "ours")
CHARTS = [Chart("tflops", direction=each, peers=PEERS, head_dim=128) for each in DIRECTIONS]
ABOUT = "Recordings of real FlashAttention kernels, played tile by tile: what they read, kept and wrote."
PAGE = Template((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))
Links = list[tuple[str, str]]
"""Name of a recording and its words in a list."""
BESIDE = "Side by side"


def write_site(out: Path, own: Sequence[Trace] = (), source: str = "") -> int:
    """Write the site into a folder; returns its size in bytes. Raises OSError if that is not possible.

    `own` are further runs, of which the first plays at once; `source` is the address of the project.
    """
    (out / "runs").mkdir(parents=True, exist_ok=True)
    (out / "talks").mkdir(exist_ok=True)
    return sum((out / name).write_bytes(text.encode()) for name, text in site_files(own, source).items())


def site_files(own: Sequence[Trace] = (), source: str = "") -> dict[str, str]:
    """Path to text of every file."""
    recordings: dict[str, dict] = {}
    own_links = [(f"own.{number}", title_of(trace)) for number, trace in enumerate(own, 1)]
    for (name, _), trace in zip(own_links, own, strict=True):
        recordings[name] = player_data(trace, trace_provenance(trace), GPU)
    runs = _runs()
    shelf = [_preset(preset, runs[preset], recordings) for preset in PRESETS] + [_ranks(recordings)]
    if own:
        shelf.insert(0, _article("More runs", "Recorded apart from the project", {"Alone": own_links}))
    first = own_links[0][0] if own else f"{FIRST_VISIT}.{FIRST}"
    words = {
        "title": escape(recordings[first]["title"]),
        "ratio": run_figures(runs[FIRST_VISIT][FIRST].trace, GPU)["standard_ratio"],
        "runs": "\n".join(shelf),
        "lanes": _lanes(recordings),
        "talks": "",
        "measured": f"Recorded on {measurement_source(recorded_document('sweeps').measurements[0])}.",
        "table": _table(markdown_table(time_ratios(recorded_document("sweeps").measurements))),
        "charts": "",
        "source": f' (<a href="{escape(source)}">source</a>)' if source else "",
        "about": _bold(theme.ABOUT_NUMBERS),
    }
    files = {}
    for name in NAMES:
        talk = read_talk(talk_path(name))
        files[f"talks/{name}.html"] = export_talk(talk_data(talk, recorded_runs(talk)), True)
        about = f"{len(talk.scenes)} scenes, {talk.minutes:g} minutes"
        words["talks"] += f'<li><a href="talks/{name}.html">{escape(talk.title)}</a>, {about}</li>'
    charts = [chart_data(chart) for chart in CHARTS]
    for chart in charts:
        caption = f"<figcaption>{escape(chart['source'])}</figcaption>"
        words["charts"] += f'<figure class="site-chart site-wide" tabindex="0">{caption}</figure>'
    body = PAGE.substitute(words)
    run = recordings.pop(first) | {"film": film(), "label": "FlashAttention"}
    body += json_element("site", {"name": first, "run": run, "film": not own, "charts": charts})
    style = f"{CSS}\n{style_sheets('screen', 'site')}\n{_root_colors()}"
    files["index.html"] = html_page("FlashAttention, played back", style, body, "site.js", ABOUT)
    for name, data in recordings.items():
        files[f"runs/{name}.js"] = f"recording({json.dumps(name)}, {json.dumps(data)});\n"
    return files


def _runs() -> dict[str, dict[str, Run]]:
    """The recorded runs of each preset, by their algorithms."""
    found: dict[str, dict[str, Run]] = {preset: {} for preset in PRESETS}
    for name, entry in ALGORITHMS.items():
        for preset in entry.recorded:
            if run := recorded(entry.with_own_tiles(PRESETS[preset].problem), name):
                found[preset][name] = run
    return found


def _preset(preset: str, runs: Mapping[str, Run], recordings: dict[str, dict]) -> str:
    """The runs of a preset, and each beside the first of its direction; their data are added."""
    about = PRESETS[preset]
    alone: dict[str, Links] = defaultdict(list)
    beside: Links = []
    first: dict[str, str] = {}
    for name, run in runs.items():
        direction, label = run.algorithm.direction, run.algorithm.label
        recordings[f"{preset}.{name}"] = data = player_data(run.trace, run.provenance, GPU)
        if lanes := recorded_lane_runs(run.trace.problem, direction):
            data["lanes"] = lanes_data(lanes)
        alone[direction.capitalize()].append((f"{preset}.{name}", label))
        other = first.setdefault(direction, name)
        if other == name:
            continue
        both = [f"{preset}.{name}", f"{preset}.{other}"]
        duel = f"{preset}.{name}.{other}"
        title = f"{label} against {runs[other].algorithm.label}: {about.label}"
        recordings[duel] = {"id": duel, "title": title, "runs": both}
        beside.append((duel, f"{label} and {runs[other].algorithm.label}"))
    return _article(about.label, about.purpose, alone | {BESIDE: beside})


def _ranks(recordings: dict[str, dict]) -> str:
    """Runs on several GPUs, and the first beside each other forward one; their data are added."""
    found = recorded_ranks()
    first, alone, beside = next(iter(found)), [], []
    for name, trace in found.items():
        recordings[f"ranks.{name}"] = ranks_data([trace], recorded=True)
        alone.append((f"ranks.{name}", title_of_ranks(trace)))
        if name != first and trace.direction == "forward":
            recordings[f"ranks.{name}.race"] = ranks_data([trace, found[first]], recorded=True)
            both = f"{title_of_ranks(trace)} and {title_of_ranks(found[first])}"
            beside.append((f"ranks.{name}.race", both))
    groups = {"Alone": alone, BESIDE: beside}
    return _article("Several GPUs", "A sequence that is shared out over ranks", groups)


def _lanes(recordings: dict[str, dict]) -> str:
    """Lanes of the problems that fill a GPU; their data are added."""
    groups: dict[str, Links] = defaultdict(list)
    for name, asked in LANE_PROBLEMS.items():
        for algorithm in ("flash3", "flash3_backward"):
            entry = ALGORITHMS[algorithm]
            problem = entry.with_own_tiles(asked)
            lanes = lanes_data(recorded_lane_runs(problem, entry.direction))
            title = f"{' and '.join(run['title'] for run in lanes['runs'])}, {problem_words(problem)}"
            recordings[f"lanes.{name}.{entry.direction}"] = {
                "title": title,
                "lanes": lanes,
                "palettes": theme.palettes_for_player(),
            }
            words = f"{problem.mask}, head_dim {problem.head_dim}"
            groups[entry.direction.capitalize()].append((f"lanes.{name}.{entry.direction}", words))
    return _choice("lanes", groups)


def _article(title: str, about: str, groups: Mapping[str, Links]) -> str:
    """What is played of a problem: the first run as a link, and if there are more, all to choose from."""
    (first, _), *more = [link for links in groups.values() for link in links]
    link = f'<a href="#run={first}">{escape(title)}</a>'
    choice = _choice(title, groups) if more else ""
    return f"<article><h3>{link}</h3><p>{escape(about)}.</p>{choice}</article>"


def _choice(label: str, groups: Mapping[str, Links]) -> str:
    shown = "<option value>choose a run …</option>"
    for group, links in groups.items():
        options = "".join(f'<option value="{name}">{escape(words)}</option>' for name, words in links)
        shown += f'<optgroup label="{group}">{options}</optgroup>' if links else ""
    return f'<select class="site-choice" aria-label="{escape(label)}">{shown}</select>'


def _table(markdown: str) -> str:
    """A table of Markdown as HTML; its first column names the rows."""
    head, _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in markdown.splitlines())
    lines = ["<th scope=col>shape" + "".join(f"<th scope=col>{escape(cell)}" for cell in head[1:])]
    lines += [f"<th scope=row>{row[0]}" + "".join(f"<td>{_bold(cell)}" for cell in row[1:]) for row in rows]
    return f"<table class=fa-lane-figures>{''.join(f'<tr>{line}' for line in lines)}</table>"


def _bold(words: str) -> str:
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escape(words))


def _root_colors() -> str:
    """The colours of the player for the page around it, before and without its script."""
    light, dark = (asdict(palette) | {"scale": ""} for palette in (theme.LIGHT, theme.DARK))
    both = (f"--fa-{name}: light-dark({light[name]}, {dark[name]});" for name in light if light[name])
    return f":root {{ {' '.join(both)} }} body {{ background: var(--fa-background); }}"
