"""The gradients of a GradientLesson by torch: autograd in float64, and this project's Triton kernels in float32. Runs in the worker."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from kernels.attention.flash_attention import flash_attention
from kernels.device.runtime import DEVICE
from kernels.lessons.gradients import WEIGHTS, GradientLesson

SMALLEST_HEAD_DIM = 16


def autograd_gradients(lesson: GradientLesson) -> dict[str, torch.Tensor]:
    """The derivatives that `kernels.lessons.gradients.REFERENCES` names, by torch's autograd on the same numbers, float64."""
    leaves = {name: torch.from_numpy(array) for name, array in lesson.numbers().items()}
    for name in ("Z", *WEIGHTS):
        leaves[name].requires_grad_()
    values = {name: leaves["Z"] @ leaves[f"W_{name}"] for name in ("Q", "K", "V")}
    values["S"] = values["Q"] @ values["K"].T * lesson.scale
    values["P"] = torch.softmax(values["S"], dim=-1)
    row_factor = torch.ones(lesson.length, dtype=torch.float64, requires_grad=True)
    values["O"] = (values["P"] * row_factor[:, None]) @ values["V"]
    output = values["O"] @ leaves["W_O"]
    by = values | {name: leaves[name] for name in ("Z", *WEIGHTS)}
    gradients = torch.autograd.grad((output * leaves["dY"]).sum(), [*by.values(), row_factor])
    found = dict(zip([*(f"d{name}" for name in by), "D"], gradients, strict=True))
    scores = values["S"].detach().requires_grad_()
    found["P"] = torch.autograd.grad(torch.logsumexp(scores, dim=-1).sum(), scores)[0]
    found["J"] = torch.stack(
        [
            torch.autograd.functional.jacobian(lambda row: torch.softmax(row, dim=-1), row)
            for row in scores.detach()
        ]
    )
    return found


def kernel_gradients(lesson: GradientLesson) -> dict[str, torch.Tensor]:
    """The layer's gradients with `flash_attention` inside, float32: forward and backward are this project's Triton kernels.

    They take a head_dim of 16 or more: Q, K and V are padded with columns of zeros, which change neither scores nor output.
    """
    leaves = {name: torch.from_numpy(array).float().to(DEVICE) for name, array in lesson.numbers().items()}
    for name in ("Z", *WEIGHTS):
        leaves[name].requires_grad_()
    values = {name: leaves["Z"] @ leaves[f"W_{name}"] for name in ("Q", "K", "V")}
    padding = max(SMALLEST_HEAD_DIM - lesson.dim, 0)
    padded = [F.pad(tensor, (0, padding))[None, None] for tensor in values.values()]
    values["O"] = flash_attention(*padded, scale=lesson.scale)[0, 0, :, : lesson.dim]
    output = values["O"] @ leaves["W_O"]
    by = values | {name: leaves[name] for name in ("Z", *WEIGHTS)}
    gradients = torch.autograd.grad((output * leaves["dY"]).sum(), list(by.values()))
    return {f"d{name}": gradient.cpu() for name, gradient in zip(by, gradients, strict=True)}
