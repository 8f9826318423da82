"""FlashAttention forward for Hopper GPUs: loads, products and softmax of different tiles at the same time.

Shah et al. 2024 (FlashAttention-3), sections 3.1 and 3.2, for 16-bit types. The algorithm and the order of
tiles are those of flash2/forward.py. That file says what happens in a tile step; these files say when. They
are written in Gluon, Triton's explicit layer: in plain Triton, softmax and products take turns. What
overlaps:

- One warp loads tiles by TMA (loader.py); two or three warpgroups of 64 query rows each compute (attend.py).
  While one is in its softmax, another multiplies: they take turns (turns.py).
- In a warpgroup, Q K^T of a key tile is issued together with P V of the tile before it. It waits for both
  before its softmax. (Shah et al. run the softmax beside P V, section 3.2; here that was not faster.)
- A program stays on its SM and claims one query tile after another (work.py). The first Q K^T of the next one
  runs beside the last P V of this one, and the output of this one leaves while the next computes.
"""
