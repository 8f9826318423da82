"""Numbers as the player's script reads them: little-endian in base64."""

import base64

import numpy as np


def encode(values: np.ndarray, dtype: str) -> str:
    """Little-endian numbers in base64."""
    little_endian = np.ascontiguousarray(values, np.dtype(dtype).newbyteorder("<"))
    return base64.b64encode(little_endian.tobytes()).decode()


def encode_share(values: np.ndarray) -> str:
    """Numbers from 0 to 1 as 16 bits; NaN as 0."""
    return encode(np.round(65535 * np.clip(np.nan_to_num(values), 0, 1)), "uint16")


def encode_log(values: np.ndarray) -> str:
    """Sizes from 1e-9 to 1e3 as 16 bits on a log scale; 0 stands for 1e-9 or less, and for NaN."""
    log = np.log10(np.clip(np.nan_to_num(values, nan=1e-9), 1e-9, 1e3))
    return encode(np.round(65535 * (log + 9) / 12), "uint16")
