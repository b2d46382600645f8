"""The peers of `step_time.py` in eager PyTorch, written as well as eager PyTorch allows: fused Adam, no logging.

Both have the paper's architecture: an input layer, hidden layers, a head at every depth, LeakyReLU(0.1).
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

torch.set_num_threads(1)

LOWER, UPPER = 0.025, 0.975


class BayesianLinear(nn.Module):
    """A mean-field Gaussian layer by local reparameterisation, prior N(0, 1)."""

    def __init__(self, n_in: int, n_out: int, initial_scale: float):
        super().__init__()
        spread = (2 / (n_in + n_out)) ** 0.5
        raw = float(torch.log(torch.expm1(torch.tensor(initial_scale))))
        self.weight_mean = nn.Parameter(spread * torch.randn(n_out, n_in))
        self.bias_mean = nn.Parameter(spread * torch.randn(n_out))
        self.weight_raw = nn.Parameter(raw + spread * torch.randn(n_out, n_in))
        self.bias_raw = nn.Parameter(raw + spread * torch.randn(n_out))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """A sample of the output, and the KL of the layer."""
        weight_variance = functional.softplus(self.weight_raw).square()
        bias_variance = functional.softplus(self.bias_raw).square()
        mean = functional.linear(x, self.weight_mean, self.bias_mean)
        variance = functional.linear(x.square(), weight_variance, bias_variance)
        kl = _kl(self.weight_mean, weight_variance) + _kl(self.bias_mean, bias_variance)
        return torch.addcmul(mean, variance.sqrt(), torch.randn_like(mean)), kl


def _kl(mean: Tensor, variance: Tensor) -> Tensor:
    return 0.5 * (variance + mean.square() - 1 - variance.log()).sum()


class NormalMasses(nn.Module):
    """The discrete truncated normal with real window edges, over the depths 0 .. highest."""

    def __init__(self, scale: float, highest: int):
        super().__init__()
        self.loc = nn.Parameter(torch.zeros(()))
        self.raw_scale = nn.Parameter(torch.log(torch.expm1(torch.tensor(scale))))
        self.register_buffer("edges", torch.arange(highest + 2.0))

    def forward(self) -> Tensor:
        scale = functional.softplus(self.raw_scale)
        below = torch.special.ndtr(-self.loc / scale)
        cdf = (torch.special.ndtr((self.edges - self.loc) / scale) - below) / (1 - below)
        return cdf.clamp(LOWER, UPPER).diff() / (UPPER - LOWER)


class PoissonMasses(nn.Module):
    """The Poisson, renormalised over the depths 0 .. highest."""

    def __init__(self, rate: float, highest: int):
        super().__init__()
        self.raw_rate = nn.Parameter(torch.log(torch.expm1(torch.tensor(rate))))
        self.register_buffer("depth", torch.arange(highest + 1.0))

    def forward(self) -> Tensor:
        rate = functional.softplus(self.raw_rate)
        return torch.softmax(self.depth * rate.log() - rate - torch.lgamma(self.depth + 1), 0)


def bayesian_steps(
    batch: int, width: int, n_inputs: int, n_classes: int, n_data: int, highest: int, steps: int
) -> Callable[[], None]:
    """Steps on the full free energy with local reparameterisation, depths 0 .. highest."""
    layers = nn.ModuleList([BayesianLinear(n_inputs if d == 0 else width, width, 0.05) for d in range(highest + 1)])
    heads = nn.ModuleList([BayesianLinear(width, n_classes, 0.05) for _ in range(highest + 1)])
    posterior = NormalMasses((highest + 0.5) / 2.2414, highest)
    edges = torch.arange(highest + 2.0) / 1.15
    log_prior = (2 * torch.special.ndtr(edges) - 1).diff().log()
    x, y = torch.randn(batch, n_inputs), torch.randint(n_classes, (batch,))

    def objective() -> Tensor:
        hidden, path_kl, nll, kl = x, torch.zeros(()), [], []
        for layer, head in zip(layers, heads, strict=True):
            hidden, layer_kl = layer(hidden)
            hidden = functional.leaky_relu(hidden, 0.1)
            path_kl = path_kl + layer_kl
            output, head_kl = head(hidden)
            nll.append(functional.cross_entropy(output, y, reduction="sum"))
            kl.append(path_kl + head_kl)
        q = posterior()
        depth_kl = torch.special.xlogy(q, q) - q * log_prior
        return torch.dot(q, torch.stack(nll)) + batch / n_data * (torch.dot(q, torch.stack(kl)) + depth_kl.sum())

    return _steps([*layers.parameters(), *heads.parameters()], [*posterior.parameters()], objective, steps)


def unbounded_steps(
    batch: int, width: int, n_inputs: int, n_classes: int, n_data: int, highest: int, steps: int
) -> Callable[[], None]:
    """Steps of the Poisson method with point weights: no weight noise, no weight KL."""
    layers = nn.ModuleList([nn.Linear(n_inputs if d == 0 else width, width) for d in range(highest + 1)])
    heads = nn.ModuleList([nn.Linear(width, n_classes) for _ in range(highest + 1)])
    posterior = PoissonMasses(1.0, highest)
    depth = torch.arange(highest + 1.0)
    log_prior = depth * torch.tensor(0.5).log() - 0.5 - torch.lgamma(depth + 1)
    x, y = torch.randn(batch, n_inputs), torch.randint(n_classes, (batch,))

    def objective() -> Tensor:
        hidden, nll = x, []
        for layer, head in zip(layers, heads, strict=True):
            hidden = functional.leaky_relu(layer(hidden), 0.1)
            nll.append(functional.cross_entropy(head(hidden), y, reduction="sum"))
        q = posterior()
        depth_kl = torch.special.xlogy(q, q) - q * log_prior
        return torch.dot(q, torch.stack(nll)) + batch / n_data * depth_kl.sum()

    return _steps([*layers.parameters(), *heads.parameters()], [*posterior.parameters()], objective, steps)


def _steps(
    weights: list[Tensor], depth: list[Tensor], objective: Callable[[], Tensor], steps: int
) -> Callable[[], None]:
    adam = torch.optim.Adam([{"params": weights, "lr": 0.005}, {"params": depth, "lr": 0.0}], fused=True)

    def run() -> None:
        for _ in range(steps):
            adam.zero_grad(set_to_none=True)
            objective().backward()
            adam.step()

    return run
