"""Collections of garbage around measurements."""

import gc
import weakref

from kernels.device.garbage import quick_collections


def test_collections_within_a_measurement_find_new_garbage_and_pass_over_what_was_there():
    class Node:
        pass

    def cycle():
        node = Node()
        node.itself = node
        return weakref.ref(node)

    before = cycle()
    with quick_collections():
        assert before() is None
        assert gc.get_freeze_count() > 1000
        within = cycle()
        gc.collect()
        assert within() is None
    assert gc.get_freeze_count() == 0
