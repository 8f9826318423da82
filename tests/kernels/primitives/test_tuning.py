"""The choice of tiles: from an architecture's table, else by a rule."""

import json
from dataclasses import asdict

import pytest
import torch

from kernels.primitives import tuning
from kernels.primitives.launch import TileConfig
from kernels.primitives.tuning import (
    FORMAT,
    FORMAT_VERSION,
    KERNELS,
    SHORT_LENGTH,
    choose_config,
    fallback_config,
    hopper_config,
    shape_class,
    split_config,
    tuned_table,
)

TUNED = TileConfig(128, 32, 8, 3)


def forget():
    for cached in (tuned_table, choose_config, hopper_config):
        cached.cache_clear()


@pytest.fixture
def write_table(tmp_path, monkeypatch):
    """Makes a table for the architecture at hand, "sm99"; without a call it has none."""
    monkeypatch.setattr(tuning, "FOLDER", tmp_path)
    monkeypatch.setattr(tuning, "architecture", lambda: "sm99")
    forget()

    def write(*classes, **changes):
        entries = {name: {"config": asdict(TUNED), "median_ms": 1.0} for name in classes}
        document = {"format": FORMAT, "version": FORMAT_VERSION, "classes": entries} | changes
        (tmp_path / "sm99.json").write_text(json.dumps(document))

    yield write
    forget()


HALF, OTHER_HALF, FLOAT32 = torch.float16, torch.bfloat16, torch.float32


def test_a_shape_of_the_table_gets_its_tiles_and_any_other_the_rule(write_table):
    write_table("forward-d64-2B-causal-short")
    assert fallback_config("forward", 64, 2) != TUNED
    for dtype, head_dim, length in ((HALF, 64, 1024), (OTHER_HALF, 33, 1024), (HALF, 64, SHORT_LENGTH)):
        assert choose_config("forward", head_dim, dtype, True, length) == TUNED
    for kernel, head_dim, dtype, masked, length in (
        ("forward", 64, HALF, False, 1024),
        ("forward", 64, HALF, True, SHORT_LENGTH + 1),
        ("forward", 64, FLOAT32, True, 1024),
        ("forward", 32, HALF, True, 1024),
        ("forward", 65, HALF, True, 1024),
        ("dq", 64, HALF, True, 1024),
    ):
        rule = fallback_config(kernel, head_dim, dtype.itemsize)
        assert choose_config(kernel, head_dim, dtype, masked, length) == rule != TUNED


def test_the_hopper_kernel_runs_only_the_shapes_of_its_table(write_table):
    write_table("forward_hopper-d128-2B-full-long", "forward-d128-2B-full-short")
    assert hopper_config(128, torch.float16, False, 8192) == TUNED
    assert hopper_config(128, torch.float16, False, 1024) is None
    assert hopper_config(128, torch.float16, True, 8192) is None


def test_an_architecture_without_a_table_gets_the_rule(write_table):
    assert tuned_table("sm99") == {}
    assert choose_config("forward", 64, torch.float16, True, 1024) == fallback_config("forward", 64, 2)
    assert hopper_config(64, torch.float16, True, 1024) is None


def test_a_table_of_another_format_is_refused_with_what_to_do(write_table):
    write_table("forward-d64-2B-causal-short", version=2)
    message = f"sm99.json is {FORMAT} version 2; expected {FORMAT} version 1.*python -m kernels.tune"
    with pytest.raises(ValueError, match=message):
        choose_config("forward", 64, torch.float16, True, 1024)


@pytest.mark.parametrize("table", sorted(path.stem for path in tuning.FOLDER.glob("*.json")))
def test_every_class_of_a_shipped_table_is_one_that_shapes_have(table):
    asked = {
        shape_class(kernel, head_dim, itemsize, masked, length)
        for kernel in KERNELS
        for head_dim in range(16, 257)
        for itemsize in (2, 4)
        for masked in (False, True)
        for length in (1, SHORT_LENGTH + 1)
    }
    assert tuned_table(table)
    assert set(tuned_table(table)) <= asked


def test_decoding_takes_the_smallest_query_tile_for_its_rows_and_smaller_key_tiles_for_longer_ones():
    rows = {1: 16, 16: 16, 17: 32, 32: 32, 33: 64, 64: 64, 65: 64, 999: 64}
    assert {each: split_config(each, 64, 2).block_m for each in rows} == rows
    tiles = [split_config(16, head_dim, itemsize) for head_dim, itemsize in ((64, 2), (256, 2), (64, 4))]
    assert [tile.block_n for tile in tiles] == [128, 64, 32]


@pytest.mark.parametrize(
    ("version", "known"), [("3.6.0", True), ("3.7.1+git", True), ("3.5.1", False), ("3.60.0", False)]
)
def test_gluon_is_used_only_in_versions_that_are_known(version, known, monkeypatch):
    monkeypatch.setattr(tuning.triton, "__version__", version)
    assert tuning.gluon_is_known() == known
