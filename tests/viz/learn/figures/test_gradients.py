"""Charts of the gradients chapter, on hand-built data."""

from kernels.lessons.backward_traffic import LOOP_ORDERS
from kernels.lessons.gradients import BlockError
from viz.learn.figures import gradients


def test_block_errors_frame_the_chosen_block(colors):
    errors = (BlockError(1, 0.5, 0.4, 0.3), BlockError(2, 0.0, 0.0, 0.0))
    figure = gradients.block_error_figure(errors, 2, colors)
    assert [list(bar.y) for bar in figure.data] == [[0.5, 0.0], [0.4, 0.0], [0.3, 0.0]]
    assert [list(bar.marker.line.width) for bar in figure.data] == [[0, 3]] * 3


def test_loop_orders_leave_out_what_nobody_counted(colors):
    figure = gradients.loop_order_figure(LOOP_ORDERS, [4, 3, 2, 1], [5, 4, 3, 1], {"this project": 1}, colors)
    assert list(figure.data[2].x) == [None, None, None, 1]
    assert figure.data[1].text == ("5", "4", "3", "1")
