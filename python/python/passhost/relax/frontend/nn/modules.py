"""Layers with parameters, and activations as layers."""

from __future__ import annotations

from collections.abc import Sequence

from passhost.relax.frontend.nn import op
from passhost.relax.frontend.nn.core import Module, Parameter
from passhost.relax.frontend.nn.op import Tensor


class ReLU(Module):
    """The maximum of an element and 0."""

    def forward(self, x: Tensor) -> Tensor:
        """Applies the layer."""
        return op.relu(x)


class SiLU(Module):
    """The element times its logistic function."""

    def forward(self, x: Tensor) -> Tensor:
        """Applies the layer."""
        return op.silu(x)


class GELU(Module):
    """The Gaussian error linear unit."""

    def forward(self, x: Tensor) -> Tensor:
        """Applies the layer."""
        return op.gelu(x)


class Linear(Module):
    """`x @ weight.T + bias`."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        dtype: str | None = None,
        out_dtype: str | None = None,
    ) -> None:
        """Creates the parameters of the layer."""
        self.in_features, self.out_features, self.out_dtype = in_features, out_features, out_dtype
        self.weight = Parameter((out_features, in_features), dtype)
        self.bias = Parameter((out_features,), out_dtype or dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Applies the layer."""
        x = op.matmul(x, op.permute_dims(self.weight), out_dtype=self.out_dtype)
        return x if self.bias is None else op.add(x, self.bias)


class Embedding(Module):
    """A table whose rows are looked up by index."""

    def __init__(self, num: int, dim: int, dtype: str | None = None) -> None:
        """Creates the table."""
        self.num, self.dim = num, dim
        self.weight = Parameter((num, dim), dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the row of each index."""
        if x.ndim == 1:
            return op.take(self.weight, x, axis=0)
        rows = op.take(self.weight, op.reshape(x, [-1]), axis=0)
        return op.reshape(rows, [*x.shape, self.dim])


class LayerNorm(Module):
    """Normalizes the last dimension or dimensions to mean 0 and variance 1."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        dtype: str | None = None,
    ) -> None:
        """Creates the parameters of the layer, if it has any."""
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.weight = Parameter(self.normalized_shape, dtype) if elementwise_affine else None
        self.bias = Parameter(self.normalized_shape, dtype) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        """Applies the layer."""
        return op.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """Divides by the root mean square along axes."""

    def __init__(
        self,
        hidden_size: int,
        axes: int | Sequence[int],
        epsilon: float = 1e-5,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        """Creates the parameters of the layer."""
        self.axes, self.epsilon = axes, epsilon
        self.weight = Parameter((hidden_size,), dtype)
        self.bias = Parameter((hidden_size,), dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Applies the layer."""
        x = op.rms_norm(x, self.weight, self.axes, self.epsilon)
        return x if self.bias is None else op.add(x, self.bias)


class Conv2D(Module):
    """A two-dimensional convolution."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: str | None = None,
        data_layout: str = "NCHW",
    ) -> None:
        """Creates the parameters of the layer."""
        if data_layout != "NCHW":
            raise ValueError(f"weights are laid out for data in NCHW, not {data_layout}")
        height, width = (kernel_size, kernel_size) if isinstance(kernel_size, int) else kernel_size
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.weight = Parameter((out_channels, in_channels // groups, height, width), dtype)
        self.bias = Parameter((out_channels,), dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Applies the layer."""
        return op.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
