"""The pictures of the report: the ulp histogram as SVG, and the error maps as PNG inside the HTML."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from html import escape

import numpy as np

from kernels.check.error_maps import ErrorMap
from kernels.check.result import ULP_EDGES, TensorCheck

MAP_TITLES = {
    "O": "O: query rows and columns of head_dim",
    "weights backward": "Weight of each group of query tiles in the backward pass: keys and queries",
    "weights": "Weight of each group of key tiles: query rows and keys",
}
ULP_CAPTION = (
    "Share of the elements of O by their error in units in the last place. Pale: the low-precision reference."
)


def ulp_labels() -> list[str]:
    """Names of the bins of the ulp histogram."""
    edges = [f"{edge:g}" for edge in ULP_EDGES]
    return [*(f"≤ {edge}" for edge in edges), f"> {edges[-1]}"]


def ulp_picture(tensor: TensorCheck) -> str:
    """The ulp histogram of O as an HTML figure."""
    width, height, spacing = 640, 160, 64
    shapes = []
    for index, label in enumerate(ulp_labels()):
        for style, counts, offset in (("bar", tensor.ulps, 6), ("bar naive", tensor.naive_ulps, 30)):
            tall = height * counts[index] / max(sum(counts), 1)
            x, y = index * spacing + offset, height - tall
            shapes.append(f'<rect class="{style}" x="{x}" y="{y:.1f}" width="22" height="{tall:.1f}"/>')
        x = index * spacing + 29
        shapes.append(f'<text x="{x}" y="{height + 16}" text-anchor="middle">{escape(label)}</text>')
    head = f'<svg viewBox="0 0 {width} {height + 24}" role="img" aria-label="{ULP_CAPTION}"'
    picture = f'{head} style="max-width:40rem">{"".join(shapes)}</svg>'
    return f"<figure>{picture}<figcaption>{ULP_CAPTION}</figcaption></figure>"


def map_pictures(error_map: ErrorMap) -> str:
    """The title of an error map and one HTML figure per head."""
    title = MAP_TITLES.get(error_map.kind, f"{error_map.kind}: rows and columns of head_dim")
    figures = []
    for head, values in zip(error_map.heads, error_map.values, strict=True):
        source = base64.b64encode(_png(values)).decode()
        largest = float(np.nan_to_num(values, nan=np.inf).max())
        times = f"{largest:.2f} of" if math.isfinite(largest) else "infinitely larger than"
        words = f"Head {head}: the largest error is {times} the allowed error"
        image = f'<img alt="{words}" src="data:image/png;base64,{source}">'
        figures.append(f"<figure>{image}<figcaption>{words}</figcaption></figure>")
    cell = (
        f"A cell covers {error_map.row_step} x {error_map.column_step} values. "
        "The larger its error, the darker; cells above the allowed error have the full colour."
    )
    return f"<h2>{escape(title)}</h2><p>{cell}</p>{''.join(figures)}"


def _png(values: np.ndarray) -> bytes:
    """A PNG (grey with alpha, 8 bits) of shares of the allowed error: black, more opaque for larger shares.

    Above 1 it is opaque; at 1 it is clearly less so.
    """
    share = np.nan_to_num(values, nan=np.inf)
    alpha = np.where(share > 1, 255, np.round(140 * np.clip(share, 0, 1))).astype(np.uint8)
    pixels = np.stack([np.zeros_like(alpha), alpha], axis=-1).reshape(len(alpha), -1)
    lines = np.concatenate([np.zeros((len(pixels), 1), np.uint8), pixels], axis=1).tobytes()

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", values.shape[1], values.shape[0], 8, 4, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks
