"""Collections of garbage around measurements."""

import gc
import weakref

from kernels.device.garbage import quick_collections


def test_collections_within_a_measurement_find_new_garbage_and_leave_what_was_there():
    class Node:
        pass

    def cycle():
        node = Node()
        node.itself = node
        return node

    garbage, held = weakref.ref(cycle()), cycle()
    old = weakref.ref(held)
    with quick_collections():
        assert garbage() is None
        del held
        new = weakref.ref(cycle())
        gc.collect()
        assert new() is None
        assert old() is not None
    gc.collect()
    assert old() is None
