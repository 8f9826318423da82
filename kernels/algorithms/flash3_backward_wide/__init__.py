"""The backward pass for Hopper GPUs with head_dim over 128, in two kernels that exchange nothing.

Shah et al. 2024 (FlashAttention-3), section 3, for 16-bit types; the gradients are those of Dao 2023,
algorithm 2. With such long rows the accumulators of dK and dV of 64 keys fill half of an SM's registers. So
the one sweep of `flash3_backward` has no room for dQ, and dQ is computed by a kernel of its own, at the price
of two products more per tile. No sum is made of parts, so the results are the same bits at every call.

- dK and dV (dk_dv.py): a program keeps 64 keys. One warpgroup computes S^T = K Q^T, P^T, and
  dV += P^T dO; the other one dP^T = V dO^T, dS^T, and dK += dS^T Q. P^T is all that passes between them,
  through shared memory.
- dQ (dq.py): a program keeps 128 queries, 64 for each of two warpgroups, and streams the keys past them.
- One warp of each kernel loads.
- lse and D of padded rows come from the first kernel of the sweep (flash3_backward/rows.py).
"""
