"""Models as the engine takes them, and what it says of rows; for all that it knows (`suits`)."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, Key, PyTree

from leadline._checks import InvalidArgumentError
from leadline.backend.compilation import jit_lightly
from leadline.backend.device import backend, n_threads
from leadline.backend.native import library
from leadline.backend.numerics import raw_of
from leadline.depth import CategoricalDepth, DepthDistribution, FixedDepth, NormalDepth, PoissonDepth
from leadline.inference.model import Model
from leadline.likelihoods import (
    CategoricalLikelihood,
    EitherNoiseLikelihood,
    GaussianLikelihood,
    HeteroscedasticLikelihood,
)
from leadline.network.blocks import Dense
from leadline.network.layers import PackedLinear

# These classes themselves, by the engine's numbers for them: what a subclass changes, it does not know.
_FAMILIES: dict[type, int] = {FixedDepth: 0, NormalDepth: 1, PoissonDepth: 2, CategoricalDepth: 3}
_LIKELIHOODS: dict[type, int] = {
    CategoricalLikelihood: 0,
    GaussianLikelihood: 1,
    HeteroscedasticLikelihood: 2,
    EitherNoiseLikelihood: 2,
}

_N_NUMBERS: dict[type, int] = {FixedDepth: 0, NormalDepth: 2, PoissonDepth: 1}
"""That are learned; a categorical q(L) has any number."""


def suits(model: Model) -> bool:
    """Whether the engine computes with such models: dense blocks with one prior for all, and the built-in likelihoods
    and families of q(L)."""
    return (
        backend().has_engine
        and type(model.network.first) is Dense
        and type(model.likelihood) in _LIKELIHOODS
        and all(type(one) in _FAMILIES for one in (model.depth_posterior, model.depth_prior))
        and len(priors_of(model)) == 1
        and all(a.dtype != np.float64 for a in jax.tree.leaves(model))
    )


def knows(likelihood: type) -> bool:
    """Whether the engine is there, and computes with such likelihoods."""
    return backend().has_engine and likelihood in _LIKELIHOODS


def priors_of(model: Model) -> set[tuple[str, float]]:
    """The kinds and scales of the priors of all layers and heads."""
    layers = (part.without_numbers if isinstance(part, PackedLinear) else part for part in layers_of(model).values())
    return {(layer.prior, layer.prior_scale) for layer in layers}


def numbers_of(part: PyTree, n_runs: int) -> np.ndarray:
    """All learned numbers of a part of the models, [runs, n]."""
    floats = [np.asarray(a) for a in jax.tree.leaves(part) if a.dtype == np.float32]
    rows = [a.reshape(n_runs, -1) for a in floats]
    return np.ascontiguousarray(np.concatenate(rows, axis=1)) if rows else np.zeros((n_runs, 0), np.float32)


def kinds_of(distribution: DepthDistribution, n_runs: int) -> Any:
    """One of `DepthKind` for every run."""
    family, n = type(distribution), numbers_of(distribution, n_runs).shape[1]
    if n != _N_NUMBERS.get(family, n):
        must = f"its {family.__name__} must have {_N_NUMBERS[family]} numbers of float32"
        raise InvalidArgumentError(f"`models`: {must}, got {n}.")
    given: dict[str, Any] = {"family": _FAMILIES[family], "n_numbers": n}
    given["floor"] = float(raw_of(getattr(distribution, "lowest", 1.0)))
    for quantile in ("lower_quantile", "upper_quantile"):
        given[quantile] = float(getattr(distribution, quantile, quantile == "upper_quantile"))
    given["integer_bounds"] = getattr(distribution, "bounds", "real") == "integer"
    depths = np.broadcast_to(getattr(distribution, "depth", 0), n_runs)
    return (library.DepthKind * n_runs)(*[library.DepthKind(**given, depth=int(depth)) for depth in depths])


def log_masses(distribution: DepthDistribution, n_runs: int, n_depths: int) -> np.ndarray:
    """ln P(L) for L = 0 .. n_depths - 1 of every run, [runs, depths]."""
    return library.log_masses(kinds_of(distribution, n_runs), numbers_of(distribution, n_runs), n_depths)


def log_masses_of(distribution: DepthDistribution, n_depths: int) -> np.ndarray:
    """The same of one distribution, whoever computes it."""
    if backend().has_engine and type(distribution) in _FAMILIES:
        return log_masses(jax.tree.map(lambda a: np.asarray(a)[None], distribution), 1, n_depths)[0]
    return np.asarray(log_masses_by_jax(distribution, n_depths), float)


log_masses_by_jax = jit_lightly(lambda distribution, n_depths: distribution.log_masses(n_depths))


def support(model: Model) -> tuple[Int[np.ndarray, " runs"], Int[np.ndarray, " runs"], Bool[np.ndarray, " runs"]]:
    """The lowest and the highest depth with mass under q(L) of every run, and whether there is any."""
    inside = log_masses(model.depth_posterior, model.runs[0], model.n_depths) > -np.inf
    highest = inside.shape[1] - 1 - inside[:, ::-1].argmax(axis=1)
    return inside.argmax(axis=1).astype(np.int32), highest.astype(np.int32), np.asarray(inside.any(axis=1))


def key_words(key: Key[Any, " runs"]) -> np.ndarray:
    """The two words of every key."""
    return np.ascontiguousarray(jax.random.key_data(key), np.uint32)


@dataclass(frozen=True)
class Described:
    """Models in the engine's terms; `arrays` are kept as long as it is used."""

    network: Any
    arrays: dict[str, Any]


def describe(
    model: Model, key: np.ndarray, learned: dict[str, np.ndarray], more: dict[str, dict[str, np.ndarray]]
) -> Described:
    """`learned` are the numbers of layers, heads, noise and depth; `more` what the optimiser has of each."""
    n_runs = model.runs[0]
    network, likelihood = model.network, model.likelihood
    [(prior, prior_scale)] = priors_of(model)
    _check_sizes(model, prior, learned)
    # Copies: the engine writes into the first.
    opening, most_opening = (
        np.array(np.broadcast_to(getattr(likelihood, name, 0), n_runs), np.int32)
        for name in ("opening", "most_opening")
    )
    posterior = kinds_of(model.depth_posterior, n_runs)
    log_prior = log_masses(model.depth_prior, n_runs, model.capacity + 2)
    arrays = {"learned": learned, "more": more, "opening": opening, "log_prior": log_prior, "key": key}
    arrays["most_opening"] = most_opening
    parts = {
        name: library.Learned(
            numbers=library.at(array),
            **{kind: library.at(a) for kind, a in more.get(name, {}).items() if kind != "best_opening"},
        )
        for name, array in learned.items()
    }
    described = library.Network(
        n_runs=n_runs,
        n_in=network.n_inputs,
        width=network.width,
        n_out=network.n_outputs,
        capacity=network.capacity,
        n_targets=getattr(likelihood, "n_targets", 0),
        likelihood=_LIKELIHOODS[type(likelihood)],
        prior=library.PRIORS[prior],
        prior_scale=prior_scale,
        **parts,
        posterior=posterior,
        log_prior=library.at(log_prior),
        opening=library.at(opening),
        best_opening=library.at(more.get("noise", {}).get("best_opening")),
        most_opening=library.at(most_opening),
        key=library.at(key),
    )
    return Described(described, {**arrays, "posterior": posterior})


def _check_sizes(model: Model, prior: str, learned: dict[str, np.ndarray]) -> None:
    """The engine reads where the sizes say that there are numbers; so there must be."""
    network = model.network

    def n(n_out: int, n_in: int) -> int:
        return 2 * n_out * (n_in + 1) + (n_out + n_in if prior == "unit" else 0)

    head, deeper = n(network.n_outputs, network.width), n(network.width, network.width)
    sizes = {"first_layer": (n(network.width, network.n_inputs),), "first_head": (head,)}
    sizes |= {"deeper_layer": (network.capacity, deeper), "deeper_head": (network.capacity, head)}
    sizes["noise"] = (getattr(model.likelihood, "n_targets", 0),)
    needed = model.likelihood.n_outputs
    if network.n_outputs != needed:
        raise InvalidArgumentError(f"`models`: its likelihood needs {needed} outputs, got {network.n_outputs}.")
    for name, size in sizes.items():
        if learned[name].shape != (*model.runs, *size):
            what = f"must have {size} numbers for each of {model.runs[0]} runs, got {learned[name].shape}"
            raise InvalidArgumentError(f"`models`: its {name.replace('_', ' ')} {what}.")


def layers_of(model: Model) -> dict[str, Any]:
    """The parts of a model that the engine learns, under its names."""
    first, deeper = model.network.first, model.network.deeper
    return {
        "first_layer": first.layer,
        "first_head": first.head,
        "deeper_layer": deeper.layer,
        "deeper_head": deeper.head,
    }


def _plain(models: Model, key: np.ndarray) -> Described:
    models = jax.tree.map(np.asarray, models)  # what is computed from them is, then, not by JAX
    n_runs, packed = models.runs[0], models.pack()
    learned = {name: np.ascontiguousarray(part.numbers) for name, part in layers_of(packed).items()}
    learned |= {"noise": numbers_of(models.likelihood, n_runs), "depth": numbers_of(models.depth_posterior, n_runs)}
    return describe(models, key, learned, {})


def evaluate(
    models: Model,
    x: np.ndarray,
    fixed: tuple[np.ndarray, ...],
    want: str,
    *,
    key: Key[Any, " runs"],
    n_samples: int,
    highest: int,
) -> Any:
    """What is asked for of rows [rows, in], or of every run's own [rows, runs, in]; `fixed` are their targets and
    weights, where they are needed. One or two arrays with an axis of runs (see `answer` in `engine.cpp`)."""
    y, weight = (*fixed, None, None)[:2]
    n_runs, n_rows, depths = models.runs[0], len(x), models.capacity + 1
    own = x.ndim == 3
    by_run = (lambda a: a.swapaxes(0, 1)) if own else (lambda a: a)
    x = np.ascontiguousarray(by_run(x), np.float32)
    labels = targets = None
    if y is not None and y.dtype.kind in "iu":
        labels = np.ascontiguousarray(by_run(y), np.int32)
    elif y is not None:
        targets = np.ascontiguousarray(by_run(y), np.float32)
    if weight is not None:
        weight = np.ascontiguousarray(np.tile(weight, n_runs) if own else weight, np.float32)
    described = _plain(models, key_words(key))
    log_mass = log_masses(models.depth_posterior, n_runs, models.capacity + 2)
    n_out, n_targets = models.network.n_outputs, described.network.n_targets
    if want == "components" and n_targets == 0:
        raise InvalidArgumentError("must predict numbers to have components.", "models")
    samples, per_depth = (n_runs, n_samples, depths, n_rows), (n_runs, depths, n_rows)
    classes = n_targets == 0
    shapes: dict[str, tuple[tuple[int, ...], ...]] = {
        "outputs": ((*samples, n_out),),
        "components": ((*samples, n_targets),) * 2,
        "moments": ((*per_depth, n_out), per_depth)
        if classes
        else ((*per_depth, 2, n_targets), (*per_depth, n_targets)),
        "log_likelihood": ((n_runs, n_rows),),
        "nll": (),
    }
    results = [np.zeros(shape, np.float32) for shape in shapes[want]]
    sums = np.zeros((n_runs, -(-n_rows // library.engine().leadline_block()), depths))
    library.engine().leadline_evaluate(
        library.Question(
            network=described.network,
            rows=library.Rows(
                x=library.at(x), y=library.at(targets), label=library.at(labels), weight=library.at(weight)
            ),
            rows_by_run=n_rows if own else 0,
            log_mass=library.at(log_mass),
            n_rows=n_rows,
            n_samples=n_samples,
            highest=highest,
            want=library.WANTS[want],
            n_threads=n_threads(),
            **dict(zip(("first", "second"), map(library.at, results), strict=False)),
            sums=library.at(sums),
        )
    )
    if want == "nll":
        return sums.sum(axis=1) / n_samples
    return results[0] if len(results) == 1 else tuple(results)


def kl_by_part(models: Model) -> tuple[Float[np.ndarray, "runs depths"], Float[np.ndarray, "runs depths"]]:
    """The KL of every layer and of every head."""
    described = _plain(models, np.zeros((models.runs[0], 2), np.uint32))
    layers, heads = np.zeros((2, models.runs[0], models.capacity + 1))
    library.engine().leadline_kl(described.network, library.at(layers), library.at(heads))
    return layers, heads
