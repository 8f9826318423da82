"""Explore: choose a shape and an algorithm, run the kernel, watch what it did, compare two runs."""

import streamlit as st

from kernels.algorithms import ALGORITHMS, FIRST
from kernels.device.gpus import Gpu
from kernels.measure.measurement import Measurement
from kernels.recordings import recorded_measurements
from kernels.traffic.modelled import least_bytes
from viz.explore import asked_here, cards, panels
from viz.explore.figures import ledger_table, ledgers_of
from viz.explore.first_visit import FIRST_PROBLEM, SAYS, end_first_visit, is_first_visit
from viz.explore.panels import shown_run, this_machine
from viz.player.lanes import LanesRun
from viz.shared import problem_form as controls
from viz.shared import runs, theme
from viz.shared.browser import is_painted
from viz.shared.fragment import fragment
from viz.shared.glossary import glossary_list, glossary_style, mark, say
from viz.shared.layout import colors, draw_cards, header
from viz.shared.link import takes_from_link
from viz.shared.provenance import looks_of
from viz.shared.run_request import RunRequest, own_tiles

OWN = "Your own sizes and words"


def show() -> None:
    machine = this_machine()
    is_first = is_first_visit()
    header(mark(SAYS) if is_first else "FlashAttention, played back", machine.store, has_chip=not is_first)
    glossary_style(colors())
    algorithm, versus = FIRST, None
    if not is_first:
        algorithm = controls.algorithm_control()
        problem, offers = controls.problem_controls(FIRST_PROBLEM)
        versus = controls.versus_controls(problem) if problem else None
    else:
        problem, offers = FIRST_PROBLEM, None
    if not is_first:
        say(looks_of(ALGORITHMS[algorithm]).headline)
    if not problem:
        return
    first, versus, words = own_tiles(RunRequest(problem, algorithm), versus)
    said, place = st.container(key="said"), st.container()  # what comes and goes does not move the player
    with said:
        run = shown_run(machine, first, offers)
        other = shown_run(machine, versus) if run and versus and not run.meanwhile else None
    if words:
        st.caption(f":material/grid_on: {' '.join(words)}")
    if run is None:
        return
    gpu = controls.gpu_of(run.trace.device.name)
    if st.context.is_embedded:
        st.html(panels.EMBEDDED)
    shown = run if other else asked_here.with_picked_row(machine, run)
    lanes = asked_here.lanes_of(machine, run)
    with place:
        if other:
            panels.duel_panel(run, other, gpu)
        else:
            panels.player_panel(shown, gpu, lanes, is_first, asked_here.can_pick(machine, run))
    if not st.context.is_embedded:
        _ways_on(is_first)
    if not (st.context.is_embedded or is_first):
        _below(run, other, asked_here.measurement_of(machine, run), gpu, (shown, lanes))


def _ways_on(is_first: bool) -> None:
    """From the picture to what it means, and to one's own problem and model."""
    with st.container(horizontal=True, vertical_alignment="center", key="first_ways" if is_first else "ways"):
        why, start = "Why it works", {"chapter": "memory"}
        st.page_link("viz/learn/page.py", label=why, icon=":material/school:", query_params=start)
        if is_first:
            st.button(OWN, icon=":material/tune:", on_click=end_first_visit, type="tertiary")
        st.page_link("viz/model/page.py", label="What your model costs", icon=":material/deployed_code:")


@fragment()
def _below(
    run: runs.Run,
    other: runs.Run | None,
    measurement: Measurement | None,
    gpu: Gpu,
    taken: tuple[runs.Run, tuple[LanesRun, ...]],
) -> None:
    """Sent once the player is painted: charts would hold it up. `taken` can be taken away."""
    if not is_painted():
        return
    draw_cards(cards.four_cards(run, measurement, other))
    traffic, cost = st.columns(2, gap="large")
    with traffic:
        st.subheader("Traffic by tensor", anchor="traffic")
        st.caption(cards.WORDS("traffic", least=least_bytes(run.trace.problem, run.algorithm)))
        st.markdown(ledger_table(ledgers_of(run.trace, other.trace if other else None)))
    with cost:
        st.subheader("Time and memory", anchor="cost")
        st.caption(cards.measurement_words(measurement, run))
        if on_gpu := cards.on_gpu_words(measurement, run, recorded_measurements()):
            st.caption(on_gpu)
        if measurement:
            if timed_words := cards.timed_words(measurement, run.algorithm):
                st.caption(timed_words)
            st.markdown(cards.times_table(measurement, run.algorithm.direction))
    st.caption(panels.mask_words(run.trace.problem, run.algorithm))
    icon = ":material/view_timeline:"
    programs = st.expander("Programs on the SMs", key="programs", icon=icon, on_change="rerun")
    if programs.open:
        with programs:
            panels.timeline_panel(run, gpu)
    panels.take_away(taken[0], gpu, taken[1])
    glossary_list()
    st.caption(theme.ABOUT_NUMBERS)


takes_from_link(*controls.EXPLORE_IN_LINK, *panels.OF_ONE_RUN, *panels.OF_TWO_RUNS)
show()
