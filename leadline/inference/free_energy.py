"""The objective: the variational free energy (eq. 8, 9)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree, Shaped

from leadline._checks import InvalidArgumentError, is_traced
from leadline.backend.numerics import AnyArray
from leadline.depth.base import expectation
from leadline.inference.model import Model, check_fits
from leadline.network.layers import Draw


class FreeEnergy(eqx.Module):
    """F[p, q] by its terms, in nats, for the whole data set.

    Examples:
        >>> from leadline import FreeEnergy
        >>> terms = FreeEnergy(expected_nll=100.0, depth_kl=0.5, weight_kl=40.0)
        >>> terms.total, terms.tempered(0.15)
        (140.5, 106.5)
    """

    expected_nll: Float[AnyArray, "*runs"]
    """E[-ln p(y | x, theta, L)], all rows together."""
    depth_kl: Float[AnyArray, "*runs"]
    """KL[q(L) || p(L)]."""
    weight_kl: Float[AnyArray, "*runs"]
    """E of KL[q(theta | L) || p(theta | L)] over q(L)."""

    @property
    def total(self) -> Float[AnyArray, "*runs"]:
        """F itself, at temperature 1."""
        return self.tempered(1.0)

    def tempered(self, temperature: float | Float[AnyArray, "*runs"]) -> Float[AnyArray, "*runs"]:
        """The free energy with the weight KL multiplied by `temperature`.

        Args:
            temperature: 1 gives F itself, 0 leaves the weight KL out.
        """
        if isinstance(temperature, float) and temperature == 0:  # leave it out: 0 times an infinite KL is not 0
            return self.expected_nll + self.depth_kl
        return self.expected_nll + self.depth_kl + temperature * self.weight_kl


def free_energy(
    model: Model,
    x: Float[Array, "batch in"],
    y: Shaped[Array, "batch ..."],
    *,
    key: Key[Array, ""],
    draw: Draw = "local",
    n_data: int | Shaped[Array, ""] | None = None,
    row_weight: Float[Array, " batch"] | None = None,
    highest: Int[Array, ""] | None = None,
) -> FreeEnergy:
    """An unbiased estimate of the free energy from a batch and one draw of the noise.

        F = E_q(L)[ ln q(L)/p(L) + KL[q(theta|L) || p(theta|L)] - E_q(theta|L) sum_n ln p(y_n | x_n, theta, L) ]

    which is eq. 8 and 9. The log-likelihood enters with a minus: F = E_q[ln q(theta, L) / p(y, theta, L | x)];
    in print, eq. 8 has lost two signs. The expectation over L is an exact sum over the support.

    Args:
        model: one run's model.
        x: the rows of the batch.
        y: their targets.
        key: of the draw.
        draw: of `local` noise on the pre-activations, or of one sample of the `weights` for the whole batch.
        n_data: the size of the data set that the batch stands for; by default the batch itself.
        row_weight: the weight of each row, 0 for padding.
        highest: the depth to go to, at least the deepest with mass, which it is by default.

    Returns:
        The terms of F, in nats. Where q(L) reaches further than the model stores layers, an error; inside `jax.jit`,
        which knows no numbers, NaN. Between compiled steps, `leadline.grow` stores more.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> from leadline import CategoricalLikelihood, free_energy, init_models, run_model
        >>> keys = jax.random.split(jax.random.key(0), 1)
        >>> models = init_models(2, CategoricalLikelihood(2), width=4, capacity=4, key=keys)
        >>> x, y = jnp.zeros((3, 2)), jnp.array([0, 1, 1])
        >>> terms = free_energy(run_model(models, 0), x, y, key=jax.random.key(1))
        >>> bool(terms.total == terms.expected_nll + terms.depth_kl + terms.weight_kl)
        True
    """
    deepest: Any = check_fits("model", model.support()[1], model.capacity)
    if highest is not None and not is_traced(highest) and not is_traced(deepest) and highest < deepest:
        raise InvalidArgumentError(f"must be at least {deepest}, the deepest with mass, got {highest}.", "highest")
    reached = jnp.minimum(deepest if highest is None else highest, model.capacity)
    terms = terms_down_to(reached, model, x, y, key=key, draw=draw, n_data=n_data, row_weight=row_weight)
    # A factor, so that the gradients of what has mass are NaN, too; `jnp.where` would make them 0, as at a minimum.
    whole = jnp.where(deepest <= reached, 1.0, jnp.nan)
    return jax.tree.map(lambda term: term * whole.astype(term.dtype), terms)


def terms_down_to(
    highest: int | Int[Array, ""],
    model: Model,
    x: Float[Array, "batch in"],
    y: Shaped[Array, "batch ..."],
    *,
    key: Key[Array, ""],
    draw: Draw = "local",
    n_data: int | Shaped[Array, ""] | None = None,
    row_weight: Float[Array, " batch"] | None = None,
) -> FreeEnergy:
    """`free_energy` for those who know that q(L) has no mass beyond `highest`, nor beyond the layers that are stored:
    it would be left out."""
    x, y = jnp.asarray(x), jnp.asarray(y)
    weight = jnp.ones(x.shape[0], x.dtype) if row_weight is None else row_weight
    scale = 1.0 if n_data is None else n_data / weight.sum()
    batch_nll, weight_kl = model.network.depths(
        x, nll_of_rows, (y, weight), model.likelihood, highest=highest, key=key, draw=draw
    )
    return terms_by_depth(model, scale * batch_nll, weight_kl)


def terms_by_depth(model: Model, nll: Float[Array, " depths"], weight_kl: Float[Array, " depths"]) -> FreeEnergy:
    """The terms of F from the expected NLL of all data and the weight KL at every depth stored."""
    nll, weight_kl = (jnp.pad(a, (0, model.n_depths - a.shape[0])) for a in (nll, weight_kl))
    log_q = model.depth_posterior.log_masses(model.n_depths)
    log_p = jax.lax.stop_gradient(model.depth_prior.log_masses(model.n_depths))
    return FreeEnergy(
        expected_nll=expectation(log_q, nll),
        depth_kl=expectation(log_q, log_q - log_p),
        weight_kl=expectation(log_q, weight_kl),
    )


def nll_of_rows(fixed: PyTree, likelihood: PyTree, output: Float[Array, "batch out"]) -> Float[Array, ""]:
    """-ln p(y | output), all rows by their weights; `fixed` is y and the weights."""
    y, weight = fixed
    return -jnp.sum(weight * likelihood.log_prob(output, y))


def weight_kl_by_layer(model: Model) -> dict[str, Float[Array, " layers"]]:
    """Each layer's share of the weight KL: its KL times the probability that it is used. The shares sum to the term.

    Layer l is used at every depth L >= l, head L at depth L alone.
    """
    q = model.depth_posterior.pmf(model.capacity + 1)
    used = jnp.cumsum(q[::-1])[::-1]
    first, deeper = model.network.first, model.network.deeper
    layer_kl = jnp.append(first.layer.kl(), jax.vmap(lambda block: block.layer.kl())(deeper))
    head_kl = jnp.append(first.head.kl(), jax.vmap(lambda block: block.head.kl())(deeper))
    return {"layers": used * layer_kl, "heads": q * head_kl}
