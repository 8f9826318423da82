"""The gradients of a GradientLesson by torch: autograd in float64, and our Triton kernels in float32.

Runs in the worker process.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.attention.flash_attention import flash_attention
from kernels.device.runtime import DEVICE
from kernels.lessons.gradients import WEIGHTS, GradientLesson

SMALLEST_HEAD_DIM = 16


def autograd_gradients(lesson: GradientLesson) -> dict[str, torch.Tensor]:
    """Derivatives by torch's autograd on the lesson's own numbers, float64.

    The keys are the values of `kernels.lessons.gradients.CHECKED_AGAINST`, such as "dQ", "D" or "J".
    """
    leaves = {name: torch.from_numpy(array) for name, array in lesson.numbers().items()}
    for name in ("Z", *WEIGHTS):
        leaves[name].requires_grad_()
    values = {name: leaves["Z"] @ leaves[f"W_{name}"] for name in ("Q", "K", "V")}
    values["S"] = values["Q"] @ values["K"].T * lesson.scale
    values["P"] = torch.softmax(values["S"], dim=-1)
    row_factor = torch.ones(lesson.length, dtype=torch.float64, requires_grad=True)
    values["O"] = (values["P"] * row_factor[:, None]) @ values["V"]
    output = values["O"] @ leaves["W_O"]
    variables = values | {name: leaves[name] for name in ("Z", *WEIGHTS)}
    gradients = torch.autograd.grad((output * leaves["dY"]).sum(), [*variables.values(), row_factor])
    derivatives = dict(zip([*(f"d{name}" for name in variables), "D"], gradients, strict=True))
    scores = values["S"].detach().requires_grad_()
    derivatives["P"] = torch.autograd.grad(torch.logsumexp(scores, dim=-1).sum(), scores)[0]
    jacobians = [
        torch.autograd.functional.jacobian(lambda row: torch.softmax(row, dim=-1), row)
        for row in scores.detach()
    ]
    derivatives["J"] = torch.stack(jacobians)
    return derivatives


def kernel_gradients(lesson: GradientLesson) -> dict[str, torch.Tensor]:
    """The layer's gradients in float32, with our own `flash_attention` kernels forward and backward.

    The kernels need a head_dim of 16 or more, so Q, K and V are padded with columns of zeros. Those change
    neither the scores nor the output.
    """
    leaves = {name: torch.from_numpy(array).float().to(DEVICE) for name, array in lesson.numbers().items()}
    for name in ("Z", *WEIGHTS):
        leaves[name].requires_grad_()
    values = {name: leaves["Z"] @ leaves[f"W_{name}"] for name in ("Q", "K", "V")}
    padding = max(SMALLEST_HEAD_DIM - lesson.dim, 0)
    query, key, value = (F.pad(tensor, (0, padding))[None, None] for tensor in values.values())
    attended = flash_attention(query, key, value, scale=lesson.scale)
    values["O"] = attended[0, 0, :, : lesson.dim]
    output = values["O"] @ leaves["W_O"]
    variables = values | {name: leaves[name] for name in ("Z", *WEIGHTS)}
    gradients = torch.autograd.grad((output * leaves["dY"]).sum(), list(variables.values()))
    return {f"d{name}": gradient.cpu() for name, gradient in zip(variables, gradients, strict=True)}
