"""The backward pass for Hopper GPUs in one sweep: five products per tile, loads and softmax beside them.

Shah et al. 2024 (FlashAttention-3), section 3 and appendix B.2, for 16-bit types; the gradients are those of
Dao 2023, algorithm 2. A program keeps a tile of 128 keys; the query tiles of all its query heads are streamed
past it. Every product is written so that its accumulators are used as they stand:

- Two warpgroups of 64 keys each compute S^T = K Q^T and dP^T = V dO^T. P^T and dS^T stay in registers as the
  left operands of dV += P^T dO and dK += dS^T Q (accumulate.py).
- dQ = dS K needs dS of both warpgroups, through shared memory. Each program has a part of dQ only; it is
  added to a float32 sum in device memory straight from registers (d_query.py).
- With head_dim up to 64 a third warpgroup computes dQ, and the two keep K and V in registers, as left
  operands. Above, registers suffice for a few columns of K at most, and each of the two computes one half of
  dQ's columns, of the query tile before, so that they wait less for each other (query_tile.py).
- Query tiles that need the mask, before and after the whole ones, have loops of their own (accumulate.py).
- One warp loads (loader.py).

The sum of dQ is made in the order in which programs happen to finish, so its last bits may differ from run
to run. `backward/launch.py` is the deterministic way; so is `flash3_backward_wide`, with head_dim over 128.
"""
