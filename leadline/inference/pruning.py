"""How wide a trained network really is, and the smaller network that predicts the same."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from leadline._checks import InvalidArgumentError, check_positive
from leadline.backend.compilation import jit_lightly
from leadline.depth import FixedDepth
from leadline.inference.free_energy import FreeEnergy
from leadline.inference.model import Model
from leadline.inference.predict import evaluate_free_energy, predict
from leadline.network.layers import GaussianLinear

USED = 1.0
"""A unit is used when the mean of some weight into it, and of some weight out of it, exceeds its standard deviation
this many times."""

_OFF = -1e30
"""A raw scale whose softplus is zero."""


def unit_strength(model: Model) -> Float[Array, "layers units"]:
    """How far each unit stands out of the weight noise: the smaller of its best signal-to-noise ratios, in and out.

    The ratio of a weight is |mean| / scale. Row l is layer f_l; rows below the support of q(L) are zero, and only heads
    inside it count. A unit of a state that goes through all layers is written by any layer up to l, and read by any
    layer and head from there on.
    """
    network = model.network
    lowest, highest = model.support()
    level = jnp.arange(model.capacity + 1)
    first, deeper = jax.tree.map(
        _signal_to_noise, (network.first, network.deeper), is_leaf=lambda node: isinstance(node, GaussianLinear)
    )
    into = jnp.concatenate([first.layer.max(-1)[None], deeper.layer.max(-1)])
    onward = jnp.pad(deeper.layer.max(-2), ((0, 1), (0, 0)))  # out of layer l into layer l + 1
    read = jnp.concatenate([first.head.max(-2)[None], deeper.head.max(-2)])
    onward = jnp.where((level < highest)[:, None], onward, 0.0)
    read = jnp.where(((level >= lowest) & (level <= highest))[:, None], read, 0.0)
    out = jnp.maximum(onward, read)
    if network.first.units == "state":
        into, out = jax.lax.cummax(into), jax.lax.cummax(out, reverse=True)
    return jnp.where((level <= highest)[:, None], jnp.minimum(into, out), 0.0)


def _signal_to_noise(layer: GaussianLinear) -> Float[Array, "*layers out in"]:
    return jnp.abs(layer.weight_mean) / jax.nn.softplus(layer.weight_raw)


def effective_width(model: Model) -> list[int]:
    """The number of units that are used, for every layer of one model from f_0 to the deepest of the support.

    Args:
        model: one run's (see `run_model`).

    Returns:
        Of every layer so many.

    Examples:
        >>> import numpy as np
        >>> from leadline import CategoricalLikelihood, Problem, Settings, effective_width, run_model, train
        >>> x = np.linspace(-1, 1, 40)[:, None]
        >>> y = (x[:, 0] > 0).astype(int)
        >>> problem = Problem((x, y), (x, y), CategoricalLikelihood(2))
        >>> models = train(problem, Settings(width=4, n_restarts=2, epochs=20)).model
        >>> len(effective_width(run_model(models, 0))) >= 1  # units in use, layer by layer
        True
    """
    if model.runs:
        raise InvalidArgumentError("must be one run's model, got a batch of runs; use `run_model(models, 0)`.", "model")
    return effective_widths(jax.tree.map(lambda a: a[None], model))[0]


def effective_widths(models: Model) -> list[list[int]]:
    """`effective_width` for every run; nothing where a block has no units that could be left out."""
    if models.network.first.units is None:
        return [[] for _ in range(models.runs[0])]
    strength, highest = _strengths(models)
    counts = np.sum(np.asarray(strength) > USED, axis=2)
    return [row[: end + 1].tolist() for row, end in zip(counts, np.asarray(highest), strict=True)]


_strengths = jit_lightly(jax.vmap(lambda model: (unit_strength(model), model.support()[1])))
"""`unit_strength`, and the deepest depth, of every run."""


@dataclass(frozen=True)
class Pruning:
    """A smaller model, and what the smaller size costs.

    Examples:
        >>> from leadline import DepthClassifier
        >>> X, y = [[-2.0], [-1.0], [1.0], [2.0]] * 10, [0, 0, 1, 1] * 10
        >>> clf = DepthClassifier(width=8, n_restarts=2, max_iter=50, random_state=0).fit(X, y)
        >>> pruning = clf.prune(X, y, tolerance=0.05)
        >>> pruning.width <= 8, pruning.difference < 0.05
        (True, True)
    """

    model: Model
    """With the axis of runs that went in."""
    width: int
    """Units of a layer that are left."""
    depth: int
    """The deepest hidden layer that is left."""
    difference: float
    """The largest change of a prediction on x: of a class probability, or of a mean in predictive deviations."""
    free_energy_change: float
    """Nats on (x, y), at temperature 1, mean over the runs."""


def prune(
    models: Model,
    x: np.ndarray,
    y: np.ndarray,
    *,
    tolerance: float = 0.01,
    most_probable_depth: bool = False,
    n_samples: int = 100,
    key: Key[Array, " runs"],
    share: Float[np.ndarray, " runs"] | None = None,
    spread: Float[np.ndarray, " targets"] | None = None,
) -> Pruning:
    """A narrower network whose predictions on x differ from the given one's by less than `tolerance`.

    Every layer keeps its strongest units, the same number in all layers and restarts, found by bisection; layers below
    the support of q(L) go. Of a state that goes through all layers the same units are kept in all of them. Of blocks
    whose units cannot be left out nothing else goes.

    Args:
        models: the restarts of one fit: the tolerance is for their average.
        x: rows to compare predictions on.
        y: their targets, to evaluate the free energy.
        tolerance: on a class probability, or on a mean in predictive deviations.
        most_probable_depth: whether the q(L) of every restart becomes its mode; the difference is then measured against
            that network.
        n_samples: draws of the weights.
        key: one for every run.
        share: of each restart in the prediction that is to stay the same; all are equal unless given.
        spread: of that prediction; 1 unless given.

    Returns:
        The smaller models, and what the smaller size costs.

    Examples:
        >>> import jax
        >>> import numpy as np
        >>> from leadline import CategoricalLikelihood, Problem, Settings, prune, train
        >>> x = np.linspace(-1, 1, 40)[:, None]
        >>> y = (x[:, 0] > 0).astype(int)
        >>> problem = Problem((x, y), (x, y), CategoricalLikelihood(2))
        >>> models = train(problem, Settings(width=4, n_restarts=2, epochs=20)).model
        >>> key = jax.random.split(jax.random.key(0), 2)  # one for each restart
        >>> smaller = prune(models, x, y, n_samples=10, key=key)
        >>> smaller.width <= 4, smaller.difference < 0.01
        (True, True)
    """
    check_positive("tolerance", tolerance)
    free_energy = partial(evaluate_free_energy, x=x, y=y, key=key)
    before = free_energy(models)
    if most_probable_depth:
        mode = jax.vmap(lambda q: FixedDepth(q.pmf(models.capacity + 1).argmax()))(models.depth_posterior)
        models = eqx.tree_at(lambda m: m.depth_posterior, models, mode)
    kind = type(models.network.first)
    if kind.units is None:
        return _shortened(models, before, free_energy)
    strength, highest = _strengths(models)
    strength = np.asarray(strength)
    if kind.units == "state":
        strength = np.broadcast_to(strength.max(axis=1, keepdims=True), strength.shape)
    order = np.argsort(-strength, axis=-1)
    share = np.full(len(key), 1 / len(key)) if share is None else share
    spread = np.ones(models.likelihood.n_spreads) if spread is None else spread

    def ask(models: Model) -> np.ndarray:
        return np.tensordot(share, predict(models, x, n_samples=n_samples, key=key), axes=1)

    expected = ask(models)

    narrow, wide, found = 1, models.network.width, 0.0
    while narrow < wide:
        width = (narrow + wide) // 2
        got = ask(_silenced(models, jnp.asarray(order[..., width:])))
        change = models.likelihood.change(expected, got, spread)
        if change < tolerance:
            wide, found = width, change
        else:
            narrow = width + 1
    highest = int(highest.max())
    smaller = _kept(models, jnp.asarray(order[..., :wide]), max(1, highest))  # a network stores one layer at least
    change = float(np.mean(np.asarray(free_energy(smaller).total - before.total)))
    return Pruning(smaller, width=wide, depth=highest, difference=found, free_energy_change=change)


def _shortened(models: Model, before: FreeEnergy, free_energy: Callable[[Model], FreeEnergy]) -> Pruning:
    """Without the layers below the support: what is left draws as it did, and predicts the same."""
    depth = max(1, int(np.asarray(_highest(models)).max()))  # a network stores one layer at least
    deeper = jax.tree.map(lambda a: a[:, :depth], models.network.deeper)
    smaller = eqx.tree_at(lambda m: m.network.deeper, models, deeper)
    change = float(np.mean(np.asarray(free_energy(smaller).total - before.total)))
    return Pruning(smaller, width=models.network.width, depth=depth, difference=0.0, free_energy_change=change)


_highest = jit_lightly(jax.vmap(lambda model: model.support()[1]))


@jit_lightly
def _silenced(models: Model, dropped: Int[Array, "runs layers units"]) -> Model:
    """The same networks without the dropped units, which stay at 0 in a state that goes through all layers, and which
    no layer reads that has units of its own above: all other draws of the noise stay as they are."""

    def from_nothing(layer: GaussianLinear, units: Int[Array, " units"]) -> GaussianLinear:
        parts = lambda m: (m.weight_mean, m.bias_mean, m.weight_raw, m.bias_raw)  # noqa: E731
        values = [part.at[units].set(value) for part, value in zip(parts(layer), (0.0, 0.0, _OFF, _OFF), strict=True)]
        return eqx.tree_at(parts, layer, values)

    def into_nothing(layer: GaussianLinear, units: Int[Array, " units"]) -> GaussianLinear:
        weights = (layer.weight_mean.at[:, units].set(0.0), layer.weight_raw.at[:, units].set(_OFF))
        return eqx.tree_at(lambda m: (m.weight_mean, m.weight_raw), layer, weights)

    def one_run(model: Model, dropped: Int[Array, "layers units"]) -> Model:
        first, deeper = model.network.first, model.network.deeper
        if first.units == "state":
            layers = from_nothing(first.layer, dropped[0]), jax.vmap(from_nothing)(deeper.layer, dropped[1:])
            return eqx.tree_at(lambda m: _parts(m)[::2], model, layers)
        layer, head = (
            jax.vmap(into_nothing)(*pair) for pair in ((deeper.layer, dropped[:-1]), (deeper.head, dropped[1:]))
        )
        return eqx.tree_at(_parts, model, (first.layer, into_nothing(first.head, dropped[0]), layer, head))

    return jax.vmap(one_run)(models, dropped)


@jit_lightly
def _kept(models: Model, units: Int[Array, "runs layers units"], depth: int) -> Model:
    """The networks of the given units, cut below `depth`."""

    def one_run(model: Model, units: Int[Array, "layers units"]) -> Model:
        first, deeper = model.network.first, jax.tree.map(lambda a: a[:depth], model.network.deeper)
        inputs, outputs = jnp.arange(model.network.n_inputs), jnp.arange(model.likelihood.n_outputs)
        above, below = units[:depth], units[1 : depth + 1]
        parts = (
            _selected(first.layer, units[0], inputs),
            _selected(first.head, outputs, units[0]),
            jax.vmap(_selected)(deeper.layer, below, above),
            jax.vmap(_selected, (0, None, 0))(deeper.head, outputs, below),
        )
        return eqx.tree_at(_parts, model, parts)

    return jax.vmap(one_run)(models, units)


def _parts(model: Model) -> tuple[GaussianLinear, ...]:
    first, deeper = model.network.first, model.network.deeper
    return first.layer, first.head, deeper.layer, deeper.head


def _selected(layer: GaussianLinear, outputs: Int[Array, " out"], inputs: Int[Array, " in"]) -> GaussianLinear:
    """The layer between fewer units."""
    table = jnp.ix_(outputs, inputs)
    kept = {"weight_mean": table, "weight_raw": table, "bias_mean": outputs, "bias_raw": outputs}
    if layer.log_input_scale is not None:
        kept |= {"log_input_scale": inputs, "log_output_scale": outputs}
    arrays = [getattr(layer, name)[some] for name, some in kept.items()]
    return eqx.tree_at(lambda m: [getattr(m, name) for name in kept], layer, arrays)
