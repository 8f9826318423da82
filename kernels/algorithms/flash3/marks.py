"""Marks of the Hopper kernel's lanes, in the order in which a turn sets them; see primitives/marks.py.

In a turn a warpgroup issues Q K^T of a key tile, then P V of the key tile before it.
"""

from __future__ import annotations

from triton.experimental.gluon import language as gl

START = gl.constexpr(0)
ASKED_K = gl.constexpr(1)
HAS_K = gl.constexpr(2)
ASKED_V = gl.constexpr(3)
HAS_V = gl.constexpr(4)
HAS_S = gl.constexpr(5)
HAS_P = gl.constexpr(6)
HAS_O = gl.constexpr(7)
WRITES = gl.constexpr(8)
WROTE = gl.constexpr(9)

LOADS_K = gl.constexpr(0)
LOADS_V = gl.constexpr(2)
LOADS_Q = gl.constexpr(4)
"""First of two marks of the warp that loads: it asks for the place of a tile, and has it. Q of the second
warpgroup has the two marks after those of the first, and so on."""
