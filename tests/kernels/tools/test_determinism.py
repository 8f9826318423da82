"""`python -m kernels.check --determinism` adds what the bits depend on, and leaves the verdict alone."""

from kernels.tools.check import main


def test_the_variations_are_printed_below_the_case(capsys):
    arguments = "--kernel split_kv --shapes 4x48 --head-dim 16 --blocks 16,16 --forward --determinism"
    assert main(arguments.split()) == 0
    printed = capsys.readouterr().out
    assert "determinism: the bits change with" in printed
    assert "parts, against the default" in printed
    assert "ulp" in printed


def test_a_kernel_that_refuses_has_no_variations(capsys):
    arguments = "--kernel flash1 --shapes 16x15 --head-dim 16 --mask causal --scale 2 --determinism"
    assert main(arguments.split()) == 2
    assert "determinism" not in capsys.readouterr().out
