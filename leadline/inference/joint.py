"""The model at points of its weights: for those who bring a sampler, or an approximation, of their own."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree, Shaped

from leadline._checks import InvalidArgumentError, check_features, check_integer, is_traced
from leadline.backend.compilation import jit_lightly
from leadline.backend.numerics import AnyArray
from leadline.backend.random import fold_in
from leadline.inference.free_energy import nll_of_rows
from leadline.inference.model import Model
from leadline.network import known


def sample_weights(model: Model, *, n_samples: int = 100, key: Key[Array, ""]) -> PyTree[Float[Array, "samples ..."]]:
    """Draws of all weights from q(theta).

    A draw has the form of the network: `weights.first.layer`, `weights.first.head`, and the blocks below, stacked, as
    `weights.deeper.layer` and `weights.deeper.head`; each is a matrix [samples, outputs, inputs + 1], with the biases
    in the last column (of `deeper` [samples, blocks, outputs, inputs + 1]). Samplers that take pytrees can start there.

    Args:
        model: one run's (`run_model`); its layers must be made of `GaussianLinear`, as those of `Dense` are.
        n_samples: how many.
        key: of the draws; they are those behind `predict` with the same key for the run.

    Returns:
        The weights, with a leading axis of samples: `outputs_by_depth` takes them, and one by one `log_joint`.

    Examples:
        >>> import jax
        >>> import numpy as np
        >>> from leadline import CategoricalLikelihood, init_models, run_model, sample_weights
        >>> models = init_models(1, CategoricalLikelihood(2), width=4, key=np.array([[0, 1]], np.uint32))
        >>> weights = sample_weights(run_model(models, 0), n_samples=10, key=jax.random.key(0))
        >>> weights.first.layer.shape, weights.deeper.head.shape  # of eight blocks
        ((10, 4, 2), (10, 8, 2, 5))
    """
    check_integer("n_samples", n_samples, 1)
    _check_one(model)
    return _points(model.network, key, jnp.arange(n_samples))


_points = jit_lightly(lambda network, key, i: jax.vmap(lambda i: known.point(network, fold_in(key, i)))(i))


def outputs_by_depth(
    model: Model, weights: PyTree[Float[Array, "samples ..."]], x: Float[AnyArray, "rows in"]
) -> Float[Array, "samples depths rows out"]:
    """Omega_L(x) for every point of the weights and every depth stored, L = 0 .. capacity.

    Args:
        model: one run's; what the outputs mean its likelihood says (`model.likelihood.moments(outputs)`), and how much
            each depth counts its `depth_posterior`, or another P(L).
        weights: points with a leading axis, as `sample_weights` draws them.
        x: rows.

    Returns:
        What the network puts out.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import numpy as np
        >>> from leadline import CategoricalLikelihood, init_models, outputs_by_depth, run_model, sample_weights
        >>> model = run_model(init_models(1, CategoricalLikelihood(2), key=np.array([[0, 1]], np.uint32)), 0)
        >>> weights = sample_weights(model, n_samples=10, key=jax.random.key(0))
        >>> outputs = outputs_by_depth(model, weights, np.zeros((5, 1)))
        >>> at_depths = model.likelihood.moments(outputs).mean(axis=0)  # over the weights
        >>> jnp.tensordot(model.depth_posterior.pmf(9), at_depths, axes=1).shape  # and the depths: the prediction
        (5, 2)
    """
    _check_one(model)
    _check_rows(model, x)
    known.check_weights(model.network, weights, several=True)
    return _outputs(model, weights, jnp.asarray(x))


@jit_lightly
def _outputs(model: Model, weights: PyTree, x: Float[Array, "rows in"]) -> Float[Array, "samples depths rows out"]:
    def of_point(weights: PyTree) -> Float[Array, "depths rows out"]:
        network = known.known(model.network, weights)
        return network.depths(x, highest=network.capacity, key=_unused_key(), draw="weights")[0]

    return jax.vmap(of_point)(weights)


def log_joint(
    model: Model,
    weights: PyTree[Float[Array, "..."]],
    x: Float[AnyArray, "rows in"],
    y: Shaped[AnyArray, "rows ..."],
    *,
    depth: int | Int[Array, ""] | None = None,
) -> Float[Array, ""]:
    """ln p(y, theta, L | x) of a point of the weights and a depth; or, with L summed out, ln p(y, theta | x).

        ln p(y, theta, L | x) = ln p(L) + sum_l ln p(theta_l) + sum_n ln p(y_n | x_n, theta, L)      (eq. 1 to 4)
        ln p(y, theta | x)    = ln sum_L p(y, theta, L | x)

    theta are the weights of all layers and heads stored. Those that depth L does not use have their prior, so that it
    is one space for all depths, and integrating them out gives what the paper writes. The sum goes over the depths
    stored; what p(L) has below them is left out. Prior scales and the numbers of the likelihood are as the model has
    them. It is a pure function of JAX, to differentiate and to compile: the target of NUTS and others.

    Args:
        model: one run's, trained or not: q is not looked at, but where `prior="weight"`, whose prior is that of q.
        weights: one point, as `sample_weights` draws several; `jax.vmap` over those.
        x: the rows.
        y: their targets.
        depth: L; None sums it out.

    Returns:
        Nats.

    Examples:
        >>> import jax
        >>> import numpy as np
        >>> from leadline import CategoricalLikelihood, init_models, log_joint, run_model, sample_weights
        >>> models = init_models(1, CategoricalLikelihood(2), capacity=2, key=np.array([[0, 1]], np.uint32))
        >>> model, x, y = run_model(models, 0), np.array([[-1.0], [1.0]]), np.array([0, 1])
        >>> start = jax.tree.map(lambda a: a[0], sample_weights(model, n_samples=1, key=jax.random.key(0)))
        >>> target = jax.jit(lambda weights: log_joint(model, weights, x, y, depth=1))  # what a sampler takes
        >>> bool(target(start) < log_joint(model, start, x, y))  # one depth of three, and all of them
        True
    """
    _check_one(model)
    _check_rows(model, x)
    known.check_weights(model.network, weights)
    if not is_traced(y):
        y = model.likelihood.check_targets("y", y, len(x))
    if isinstance(depth, int):
        check_integer("depth", depth, 0, model.capacity)
    network, x, y = known.known(model.network, weights), jnp.asarray(x), jnp.asarray(y)
    highest = model.capacity if depth is None else depth
    nll, _ = network.depths(
        x,
        nll_of_rows,
        (y, jnp.ones(len(x), x.dtype)),
        model.likelihood,
        highest=highest,
        key=_unused_key(),
        draw="weights",
    )
    log_p = jax.lax.stop_gradient(model.depth_prior.log_masses(model.n_depths))[: model.capacity + 1]
    at_depths = log_p - nll
    at_depth = jax.nn.logsumexp(at_depths) if depth is None else at_depths[depth]
    return at_depth + known.log_prior(network)


def _unused_key() -> Key[Array, ""]:
    """Where nothing is drawn."""
    return jax.random.key(0, impl="threefry2x32")


def _check_one(model: Model) -> None:
    if model.runs != ():
        must = "must be one run's, as `leadline.run_model(models, run)` takes it out of a batch"
        raise InvalidArgumentError(f"{must}, got {model.runs[0]} runs.", "model")


def _check_rows(model: Model, x: Float[AnyArray, "rows in"]) -> None:
    if not is_traced(x):
        check_features("x", x, model.network.n_inputs)
