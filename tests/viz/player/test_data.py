"""Trace -> player data, on hand-built traces, decoded as the player's script decodes it."""

import base64
import json
from dataclasses import replace

import numpy as np
import pytest

from kernels.algorithms import algorithm_of, run_traced
from kernels.algorithms.standard.traffic import standard_requested
from kernels.device.gpus import GPUS
from kernels.measure.document import Document
from kernels.problem import AttentionProblem
from kernels.trace import LaunchInfo
from kernels.trace.sample import Sample
from tests.anywhere import ANYWHERE
from tests.viz.player.runs import PROBLEM, hand_built
from viz.player import drawn, tiles
from viz.player.data import film, player_data


def decode(text, dtype):
    return np.frombuffer(base64.b64decode(text), np.dtype(dtype).newbyteorder("<"))


def bytes_of(data, direction):
    """Bytes "read" or "written" by every drawn step, (steps, tensors)."""
    steps = data["steps"]
    classes = np.array([moved[direction] for moved in steps["byte_classes"]])
    return classes[decode(steps["byte_class"], "uint16")]


def values_of(data, name):
    """Decoded values of every drawn step and of its drawn rows."""
    sent = data["rows"]["values"][name]
    raw = decode(sent["data"], "float32" if sent["scale"] == "float" else "uint16").astype(float)
    raw = raw.reshape(data["steps"]["count"], -1)
    return raw if sent["scale"] == "float" else raw / 65535


def test_steps_rows_and_bytes_arrive_unchanged():
    trace = hand_built(PROBLEM, clock=True)
    data = player_data(trace, "made up", GPUS["A100"])
    steps = data["steps"]
    assert steps["count"] == trace.steps == 10
    assert decode(steps["q"], "int32").tolist() == trace.q_tile.tolist()
    assert decode(steps["kv"], "int32").tolist() == trace.kv_tile.tolist()
    assert decode(steps["kv_end"], "int32").tolist() == (trace.kv_tile + 1).tolist()
    assert np.array_equal(bytes_of(data, "read"), trace.tensor_bytes_read)
    assert np.array_equal(bytes_of(data, "written"), trace.tensor_bytes_written)
    assert data["rows"]["offsets"] == list(range(16))
    assert np.array_equal(values_of(data, "l"), trace.row_sum)
    assert np.array_equal(values_of(data, "alpha"), trace.alpha)
    assert decode(data["clock"]["start"], "uint32").tolist() == trace.start_ns.tolist()
    assert decode(data["clock"]["sm"], "uint8").tolist() == trace.sm.tolist()
    assert [tensor["written"] for tensor in data["tensors"]] == [False, False, False, True, False]


def test_numbers_carry_their_source():
    trace, gpu = hand_built(PROBLEM), GPUS["A100"]
    data = player_data(trace, "run here", gpu)
    assert (data["provenance"], data["standard_bytes"]) == ("run here", standard_requested(PROBLEM))
    assert data["gpu"]["limits"] == {"shared memory": 163 * 1024, "registers": 256 * 1024}
    assert "163 KiB of shared memory (an SM has 164 KiB" in data["gpu"]["words"]
    assert "compiled" not in data["gpu"]["words"].partition("tiles.")[2]
    compiled = replace(trace, launches=(LaunchInfo(4, 3, shared_bytes=73 << 10, registers=255),))
    assert "_attn_fwd 73 KiB (stages: 3)." in player_data(compiled, "", gpu)["gpu"]["words"]
    clocks = [player_data(hand_built(PROBLEM, clock=clock), "", gpu)["clock"] for clock in (False, True)]
    assert [clock["measured"] for clock in clocks] == [False, True]


@pytest.mark.parametrize(("q_len", "words"), [(24, "row 0 sees"), (40, "rows 0 to 16 see")])
def test_rows_that_see_no_key_are_said(q_len, words):
    problem = PROBLEM.with_(q_len=q_len, kv_len=23)
    (note,) = player_data(run_traced(problem, "flash2"), "", GPUS["A100"])["notes"]
    assert note.startswith(f"{words} no key")


def test_the_film_leaves_out_times_that_were_not_recorded(monkeypatch):
    told = [act["took"] for act in film() if "took" in act]
    assert len(told) == 3
    for took in told:
        kept, all_of = (
            sum(each["bytes"] for each in took["parts"] if each["name"] in names)
            for names in ("QKVO", "QKVOSP")
        )
        assert kept == 4 * 16 * 16_384 * 128 * 2
        assert all_of - kept == 4 * 16 * 16_384**2 * 2  # S and P, written and read
        assert round(all_of / kept) == took["less"]
        assert round(took["ms"][0] / took["ms"][1]) == took["faster"]
    monkeypatch.setattr("viz.player.data.recorded_document", lambda part: Document())
    assert film.__wrapped__() == [act for act in film() if "took" not in act]


def test_32_by_32_tiles_stay_under_200_kilobytes():
    trace = hand_built(AttentionProblem(q_len=2048, kv_len=2048))
    assert trace.steps == 1024
    assert len(json.dumps(player_data(trace, "made up", GPUS["H200"]))) < 200_000


def test_the_id_changes_with_the_run_and_not_with_a_rerun():
    def id_of(trace, provenance="here", gpu="A100"):
        return player_data(trace, provenance, GPUS[gpu])["id"]

    trace = hand_built(PROBLEM)
    others = id_of(trace, "there"), id_of(hand_built(PROBLEM.with_(mask="full")))
    assert id_of(trace) == id_of(hand_built(PROBLEM))
    assert id_of(trace) not in others
    many_heads = PROBLEM.with_(q_heads=33, kv_heads=33)
    modelled, recorded = hand_built(many_heads), hand_built(many_heads, clock=True)
    ids = {gpu: id_of(modelled, gpu=gpu) for gpu in ("A100", "H100", "H200")}
    assert ids["A100"] != ids["H200"] == ids["H100"]  # the SMs differ, and with them the modelled clock
    assert id_of(recorded, gpu="A100") == id_of(recorded, gpu="H200")


REAL = AttentionProblem(
    q_len=40, kv_len=56, head_dim=16, block_m=16, block_n=16, mask="causal", q_heads=2, kv_heads=1
)


@pytest.fixture(scope="module", params=ANYWHERE)
def real(request):
    return run_traced(REAL.with_(q_len=24, kv_len=40), request.param).without_acc()


def test_every_algorithm_gives_player_data_that_names_its_kernels(real):
    data = player_data(real, "here", GPUS["H200"])
    assert [kernel["name"] for kernel in data["kernels"]] == list(real.kernels)
    assert data["steps"]["count"] == real.steps
    assert (bytes_of(data, "read") + bytes_of(data, "written")).sum() == real.total_bytes
    for kernel in data["kernels"]:
        assert any(kernel["phases"])
        assert sum(part["bytes"] for part in kernel["parts"]) > 0
        assert {part["color"] for part in kernel["parts"]} <= set(data["palettes"]["light"])
    json.dumps(data)
    phases = [phase for kernel in data["kernels"] for part in kernel["phases"] for phase in part]
    moved = {name for phase in phases for name in (*phase["loads"], *phase["stores"])}
    assert {strip["name"] for strip in data["strips"]} | set(real.tensors) <= moved


def test_shares_of_every_algorithm_add_up_to_one_and_its_turns_keep_a_tile(real):
    entry = algorithm_of(real)
    share, turn = tiles.attention_share(real, entry), drawn.turns(real, entry)
    for one in np.unique(turn):  # a turn keeps one tile on the chip
        steps = turn == one
        assert len(np.unique(real.kernel[steps])) == 1
        assert min(len(np.unique(real.q_tile[steps])), len(np.unique(real.kv_tile[steps]))) == 1
    for index, kernel in enumerate(entry.kernels):
        if kernel.cells != "share":
            assert not share[real.kernel == index].any()
            continue
        for head in np.unique(real.batch_head):
            own = (real.kernel == index) & (real.batch_head == head)
            for tile in np.unique(real.q_tile[own & (real.q_tile >= 0)]):
                total = share[own & (real.q_tile == tile)].sum(axis=0)
                rows = min(entry.rows(real.problem) - tile * REAL.block_m, REAL.block_m)
                np.testing.assert_allclose(total[:rows], 1, atol=2e-3)


def test_a_part_of_the_keys_covers_the_tiles_that_its_program_read():
    run = run_traced(REAL.with_(kv_splits=2), "split_kv")
    data = player_data(run, "here", GPUS["H200"])
    combine = run.kernel == 1
    kv, end = (decode(data["steps"][name], "int32")[combine] for name in ("kv", "kv_end"))
    assert (kv[0], end[0], kv[1], end[1]) == (0, 2, 2, 4)
    assert data["key_parts"] == [0, 2, 4]
    assert player_data(hand_built(PROBLEM), "here", GPUS["H200"])["key_parts"] == []


@pytest.mark.parametrize("sample", [None, Sample((2, 3))])
def test_the_page_of_each_step_and_the_size_of_the_pool_that_ran_arrive(sample):
    run = run_traced(REAL.with_(batch=2, kv_splits=2), "paged", sample)
    data = player_data(run, "here", GPUS["H200"])
    assert decode(data["pages"]["of_step"], "int32").tolist() == run.page.tolist()
    assert data["pages"]["count"] == (6 if sample else 12)  # of 4 key tiles a sequence, and half as many
    assert {strip["name"] for strip in data["strips"] if strip["paged"]} == {"K", "V"}
    assert [strip["name"] for strip in data["strips"] if strip["lists"]] == ["table"]
    assert "pale pages" in data["notes"][-1]
    assert player_data(hand_built(PROBLEM), "here", GPUS["H200"])["pages"] is None


def test_a_pattern_gives_each_row_its_ranges_of_keys_its_borders_and_its_sinks():
    shape = {"q_len": 8, "kv_len": 12, "head_dim": 16, "block_m": 4, "block_n": 4}
    problem = AttentionProblem(**shape, mask="documents", documents="5 3", sink_logit=1)
    sent = player_data(run_traced(problem), "run here", GPUS["A100"])["problem"]
    assert sent["borders"] == [0, 5, 8, 12]
    assert sent["seen"] == [[[[0, 5]], [[5, 6]], [[5, 7]], [[5, 8]], *([[8, 9 + i]] for i in range(4))]]
    assert list(sent["sinks"]) == list(problem.pattern.sinks)
    by_head = problem.with_(
        mask="expression", expression="k <= q and (h == 0 or k % 2 == 0)", q_heads=2, kv_heads=2
    )
    sent = player_data(run_traced(by_head), "run here", GPUS["A100"])["problem"]
    assert [rows[0] for rows in sent["seen"]] == [[[0, 5]], [[0, 1], [2, 3], [4, 5]]]
