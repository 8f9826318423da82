"""Figures of the Measure page on hand-built measurements: the right numbers, marks and words."""

import csv
import io
import json

import pytest

from kernels.document import InvalidDocument, read_document
from kernels.four_numbers import our_numbers, standard_numbers
from kernels.roofline import counter_points, roofs
from kernels.series import View, curves
from tests.kernels.documents import DEVICE, LENGTHS, counter_run, document, measurement
from viz import theme
from viz.figures.four_numbers import four_numbers_figure
from viz.figures.measured_points import point_figure
from viz.figures.measured_roofline import MOST_NAMED, roofline_figure
from viz.figures.sweep import sweep_figure
from viz.measure.charts import point_rows, spread_notes, table_rows
from viz.measure.live import command_for
from viz.measure.sources import Source, file_source, plain, to_csv, to_document
from viz.measure.traffic import kernel_rows

VIEW = View("length", 1024, 64, "float16", "full", q_heads=4)


@pytest.fixture
def swept():
    return curves("recorded", document().measurements, VIEW)


def traces(figure):
    return {trace.name.split("  ")[0]: trace for trace in figure.data}


def test_time_is_drawn_with_its_spread_and_exponent(swept):
    figure = sweep_figure(swept, "time", "length", theme.LIGHT)
    naive, ours = traces(figure)["naive (torch)"], traces(figure)["our kernels, tuned tiles"]
    assert list(ours.x) == list(LENGTHS)
    assert list(naive.y) == [1.0, 4.0, 16.0]
    assert list(naive.error_y.array) == pytest.approx([0.1, 0.4, 1.6])
    assert naive.name.endswith("∝ N<sup>2.00</sup>")
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")
    assert list(figure.layout.xaxis.ticktext) == ["512", "1k", "2k", "4k"]


def test_a_wide_spread_is_a_hollow_mark(swept):
    shown = traces(sweep_figure(swept, "time", "length", theme.LIGHT))
    assert set(shown["our kernels, tuned tiles"].marker.symbol) == {"circle-open"}
    assert set(shown["naive (torch)"].marker.symbol) == {"square"}
    assert set(traces(sweep_figure(swept, "memory", "length", theme.LIGHT))["our kernels, tuned tiles"].marker.symbol) == {"circle"}


def test_running_out_of_memory_is_drawn_where_it_happens(swept):
    figure = sweep_figure(swept, "memory", "length", theme.DARK)
    line = figure.layout.shapes[0]
    assert (line.x0, line.x1) == (4096, 4096)
    assert "out of memory: needs 68.0 GB, 24.0 GB free" in figure.layout.annotations[0].text
    needed = traces(figure)["naive (torch): needed (modelled)"]
    assert list(needed.y) == [2 * 4 * 4096**2 * 2]
    assert len(sweep_figure(swept, "time", "length", theme.DARK).layout.shapes) == 1


def test_speed_up_leaves_naive_out_and_stops_where_naive_does(swept):
    (ours,) = sweep_figure(swept, "speedup", "length", theme.LIGHT).data
    assert list(ours.x) == [512, 1024, 2048]
    assert list(ours.y) == pytest.approx([10, 10, 10])


def test_live_and_recorded_lie_over_each_other_and_are_told_apart(swept):
    both = swept + curves("here", [measurement(n) for n in LENGTHS], VIEW)
    figure = sweep_figure(both, "time", "length", theme.LIGHT)
    dashes = {trace.name.split("  ")[0]: trace.line.dash for trace in figure.data}
    assert dashes["naive (torch) · recorded"] == "solid"
    assert dashes["naive (torch) · here"] == "dash"


def test_an_unknown_implementation_keeps_its_name(swept):
    other = curves("file", [measurement(n) for n in LENGTHS], VIEW)[1]
    renamed = type(other)("file", "my_kernel", "forward", other.points)
    assert "my_kernel · file" in traces(sweep_figure([*swept, renamed], "time", "length", theme.LIGHT))


def test_nothing_measured_still_gives_a_figure():
    assert len(sweep_figure([], "time", "length", theme.LIGHT).data) == 0
    refused = curves("here", [measurement(512, naive_fits=False)], VIEW)[:1]
    assert len(sweep_figure(refused, "time", "length", theme.LIGHT).layout.shapes) == 1


def test_one_point_is_a_bar_a_peer():
    found = curves("here", [measurement(512, naive_fits=False)], VIEW)
    figure = point_figure(found, "time", theme.LIGHT)
    assert dict(zip(figure.data[0].y, figure.data[0].x, strict=True)) == {"naive (torch)": 0, "our kernels, tuned tiles": 0.1}
    assert {note.text for note in figure.layout.annotations} == {"100 µs", "needs 68.0 GB, 24.0 GB free"}
    rows = point_rows(found)
    assert rows["peer"] == ["naive", "ours"]
    assert rows["memory"] == ["out of memory", "51.2 kB"]


def test_the_table_says_what_the_chart_shows(swept):
    rows = table_rows(swept, "time", "length")
    assert rows["length"] == ["512", "1,024", "2,048", "4,096"]
    assert rows["naive"] == ["1 ms ±10%", "4 ms ±10%", "16 ms ±10%", "out of memory"]
    assert table_rows(swept, "speedup", "length")["ours"] == ["10×", "10×", "10×", "–"]
    assert spread_notes(swept).startswith("our kernels, tuned tiles forward at ")
    assert spread_notes([curve for curve in swept if curve.peer == "naive"]) == ""


def test_the_roofline_has_both_roofs_and_names_a_few_calls_on_the_spot():
    lines, points = roofs(document().ceilings, DEVICE, "float16"), counter_points(document().counters)
    figure = roofline_figure(lines, points, theme.LIGHT)
    assert figure.data[0].name == "measured copy and float16 product: 4 TB/s, 600 TFLOP/s"
    assert figure.data[1].name == "datasheet of the H200 SXM: 4.8 TB/s, 989 TFLOP/s"
    calls = figure.data[2:]
    assert {trace.name for trace in calls} == {"our kernels, tuned tiles", "naive (torch)"}
    assert all(list(trace.marker.symbol) == ["circle", "diamond"] for trace in calls)
    assert not any(trace.showlegend for trace in calls)
    many = [point for peer in range(MOST_NAMED + 1) for point in counter_points([counter_run(f"peer {peer}")])]
    assert all(trace.showlegend for trace in roofline_figure(lines, many, theme.LIGHT).data[2:])


def test_the_four_bars_are_cut_into_kernels_and_an_absent_one_says_why():
    run = counter_run("naive", counted=3e9, dram=2.7e9)
    figure = four_numbers_figure("standard", standard_numbers(run.problem, "forward", run.counted, run), theme.LIGHT.standard, theme.LIGHT)
    sums = {}
    for bar in figure.data:
        sums[bar.y[0]] = sums.get(bar.y[0], 0) + bar.x[0]
    assert sums["DRAM<br>(counters)"] == pytest.approx(2.7e9)
    assert sum(bar.y[0] == "modelled" for bar in figure.data) == 3
    without = four_numbers_figure("ours", our_numbers(run.problem, "forward", (), None), theme.DARK.flash, theme.DARK)
    assert {"not counted", "not recorded"} <= {note.text for note in without.layout.annotations}


def test_the_table_of_kernels_has_a_row_a_kernel():
    rows = kernel_rows(list(document().counters))
    assert rows["by"] == ["ours", "naive"]
    assert rows["DRAM read"] == ["45 MB", "2.02 GB"]
    assert rows["tensor cores busy"] == ["–", "–"]


def test_the_csv_names_device_versions_date_and_command(swept):
    source = Source("recorded", document())
    rows = list(csv.DictReader(io.StringIO(to_csv([source], swept))))
    assert len(rows) == 8
    last = next(row for row in rows if (row["peer"], row["q_len"]) == ("naive", "4096"))
    assert (last["median_ms"], last["refused"]) == ("", "needs 68.0 GB, 24.0 GB free")
    first = rows[0]
    assert (first["device_name"], first["device_torch"], first["device_driver"]) == ("NVIDIA H200", "2.11.0", "580.1")
    assert (first["recorded_at"][:10], first["command"]) == ("2026-11-21", "python -m kernels.record")
    assert float(first["median_ms"]) == 1.0


def test_the_json_download_is_a_file_that_the_page_takes_back(swept):
    source = Source("recorded", document())
    text = json.dumps(to_document([source], swept).as_dict())
    back = read_document(text)
    assert back.measurements == document().measurements
    assert back.ceilings == document().ceilings
    assert file_source(text.encode()).words == "from your file, measured on NVIDIA H200, 2026\\-11\\-21, torch 2.11.0, Triton 3.6.0, driver 580.1"


def test_peers_that_met_in_one_run_are_compared_with_each_other():
    together, later = measurement(512), measurement(512)
    alone = type(later)(later.problem, later.device, "2027-01-01T00:00:00", (later.results[1].__class__("ours", refused="x"),), None)
    recorded = {curve.peer: curve for curve in Source("recorded", document().with_(measurements=(together, alone))).curves(VIEW)}
    assert recorded["ours"].points[0].result == together.results[1]
    live = {curve.peer: curve for curve in Source("here", document().with_(measurements=(together, alone))).curves(VIEW)}
    assert live["ours"].points[0].result.refused == "x"


def test_a_file_without_measurements_is_refused():
    with pytest.raises(InvalidDocument, match="it holds no measurement"):
        file_source(b'{"format": "flash-attention-measurements", "version": 1}')


def test_text_of_a_file_cannot_become_a_picture_or_a_link():
    assert plain("![x](http://a.b)") == "\\!\\[x\\]\\(http\\://a.b\\)"


def test_the_command_repeats_the_sweep():
    from kernels.measure import _argument_parser, parse_problems

    for problems in (
        [measurement(n).problem for n in LENGTHS],
        [measurement(n, batch=4096 // n).problem for n in LENGTHS],
        [measurement(512, batch=b).problem for b in (1, 2, 4)],
        [measurement(512, head_dim=d, heads=256 // d).problem for d in (32, 64)],
    ):
        command = command_for(problems, ("naive", "sdpa"), ("forward", "backward"), 0.4)
        arguments = _argument_parser().parse_args(command.split()[3:])
        again = [problem.with_(block_m=64, block_n=64) for problem in parse_problems(arguments)]
        assert sorted(map(str, again)) == sorted(map(str, problems))
        assert arguments.peers == ["naive", "sdpa"]
