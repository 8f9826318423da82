"""The gradients of a GradientLesson by torch: autograd in float64, and our Triton kernels in float32.

Runs in the worker process.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F

from kernels.attention.flash_attention import flash_attention
from kernels.device.runtime import DEVICE
from kernels.lessons.gradients import WEIGHTS, GradientLesson

SMALLEST_HEAD_DIM = 16


def autograd_gradients(lesson: GradientLesson) -> dict[str, torch.Tensor]:
    """Derivatives by torch's autograd on the lesson's own numbers, float64.

    The keys are the values of `viz.learn.gradients.maths.CHECKED_AGAINST`, such as "dQ", "D" or "J".
    """
    row_factor = torch.ones(lesson.length, dtype=torch.float64, requires_grad=True)

    def attend(values: dict[str, torch.Tensor]) -> torch.Tensor:
        values["S"] = values["Q"] @ values["K"].T * lesson.scale
        values["P"] = torch.softmax(values["S"], dim=-1)
        return (values["P"] * row_factor[:, None]) @ values["V"]

    leaves = {name: torch.from_numpy(array) for name, array in lesson.numbers().items()}
    values, derivatives = _layer_gradients(leaves, attend, {"D": row_factor})
    scores = values["S"].detach().requires_grad_()
    derivatives["P"] = torch.autograd.grad(torch.logsumexp(scores, dim=-1).sum(), scores)[0]
    jacobian = torch.func.jacrev(lambda row: torch.softmax(row, dim=-1))
    derivatives["J"] = torch.stack([jacobian(row) for row in scores.detach()])
    return derivatives


def kernel_gradients(lesson: GradientLesson) -> dict[str, torch.Tensor]:
    """The layer's gradients in float32, with our own `flash_attention` kernels forward and backward.

    The kernels need a head_dim of 16 or more, so Q, K and V are padded with columns of zeros. Those change
    neither the scores nor the output.
    """
    padding = max(SMALLEST_HEAD_DIM - lesson.dim, 0)

    def attend(values: dict[str, torch.Tensor]) -> torch.Tensor:
        query, key, value = (F.pad(values[name], (0, padding))[None, None] for name in "QKV")
        return flash_attention(query, key, value, scale=lesson.scale)[0, 0, :, : lesson.dim]

    leaves = {name: torch.from_numpy(array).float().to(DEVICE) for name, array in lesson.numbers().items()}
    _, derivatives = _layer_gradients(leaves, attend, {})
    return {name: gradient.cpu() for name, gradient in derivatives.items()}


def _layer_gradients(
    leaves: dict[str, torch.Tensor],
    attend: Callable[[dict[str, torch.Tensor]], torch.Tensor],
    more: dict[str, torch.Tensor],
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Values of the layer, and the derivatives by them ("dQ" and so on) and by `more`.

    `attend` gives O from Q, K and V, and may add values on the way.
    """
    inputs = {name: leaves[name].requires_grad_() for name in ("Z", *WEIGHTS)}
    values = {name: leaves["Z"] @ leaves[f"W_{name}"] for name in "QKV"}
    values["O"] = attend(values)
    loss = ((values["O"] @ leaves["W_O"]) * leaves["dY"]).sum()
    names = [*(f"d{name}" for name in (*values, *inputs)), *more]
    gradients = torch.autograd.grad(loss, [*values.values(), *inputs.values(), *more.values()])
    return values, dict(zip(names, gradients, strict=True))
