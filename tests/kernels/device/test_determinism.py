"""Memory filled with NaN, without another choice of kernels."""

import torch

from kernels.device.determinism import filled_memory, wants_same_bits


def settings():
    return torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory


def test_new_tensors_hold_nan_while_it_lasts_and_the_settings_come_back():
    before = settings()
    with filled_memory():
        assert torch.empty(5).isnan().all()
        assert not wants_same_bits()
        with filled_memory():
            assert torch.empty_strided((2, 2), (2, 1)).isnan().all()
        assert not wants_same_bits()
    assert settings() == before
    assert not wants_same_bits()


def test_a_user_who_asked_for_deterministic_kernels_still_gets_them():
    torch.use_deterministic_algorithms(True)
    try:
        with filled_memory():
            assert wants_same_bits()
        assert wants_same_bits()
    finally:
        torch.use_deterministic_algorithms(False)
