"""The backward pass as one kernel, with the key tile outside and with the query tile outside.

One program per batch and key head. The sums of the tile that changes in the inner loop travel to HBM and back
at every step, in float32. The project keeps these kernels to compare their traffic, not for their speed.
"""
