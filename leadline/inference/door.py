"""Checked at the door: parts that are not Leadline's own, before anything is trained with them.

Leadline's own are held to the same by its tests (`tests/depth/test_conformance.py`), and are not asked again.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from leadline._checks import InvalidArgumentError, check_integer, is_traced
from leadline._registry import is_own
from leadline.backend.compilation import jit_lightly
from leadline.backend.numerics import bucket
from leadline.depth.base import N_DEPTHS, DepthDistribution, expectation
from leadline.inference import native
from leadline.likelihoods import Likelihood

AMISS = 1e-3
"""How far masses may sum to something else than one, and ln P(L) differ from itself: a few roundings of float32."""

SHIFTS = (-100.0, -10.0, -3.0, 3.0, 10.0, 100.0)
"""How far the numbers of q(L) are moved to see where it can go."""

NUMBERS = ("float32", "float64", "int32", "int64")
"""What a model is made of; a model file holds no other numbers."""


def check_pair(prior: Any, posterior: Any) -> None:
    """A prior and the q(L) to start from, if both are families that keep the rules of `docs/depth-families.md`, and the
    prior has mass wherever q(L) has, or can come to have: else there is nothing finite to minimise.

    Args:
        prior, posterior: whoever gives them.
    """
    if any(map(is_traced, jax.tree.leaves((prior, posterior)))):
        return
    for role, family in (("prior", prior), ("posterior", posterior)):
        if not isinstance(family, DepthDistribution):
            raise _wrong(f"the {role} must be a depth distribution, got {family!r}")
        if not is_own(type(family)):
            check_family(role, family)
    log_p, log_q = (native.log_masses_of(one, N_DEPTHS) for one in (prior, posterior))
    p, q = (f"the {role} {type(one).__name__}" for role, one in (("prior", prior), ("posterior", posterior)))
    if np.any(log_q[..., -1] > -np.inf):
        raise _wrong(
            f"the support of {q} must end; cut it with `leadline.truncated`, or give it an upper quantile below 1"
        )
    missing = np.flatnonzero((log_q != -np.inf) & ~(np.isfinite(log_p) & np.isfinite(log_q)))
    if len(missing):
        raise _wrong(f"{p} must have mass wherever {q} has, and has none at depth {missing[0]}")
    if np.all(log_p > -np.inf):
        return
    for moved in _moved(posterior):
        reached = np.flatnonzero((native.log_masses_of(moved, N_DEPTHS) > -np.inf) & (log_p == -np.inf))
        if len(reached):
            raise _wrong(
                f"{p} must have mass wherever {q} can go, and has none at depth {reached[0]}; take a prior that goes "
                "on, or a posterior that ends where it does"
            )


def check_unfrozen(posterior: DepthDistribution) -> DepthDistribution:
    """What the q(L) of one's own says of itself in `unfrozen`: training puts it in its place after every step.

    Args:
        posterior: whoever gives it.

    Returns:
        It, unfrozen.
    """
    unfrozen: Any = posterior.unfrozen()
    if not is_own(type(posterior)) and _form(unfrozen) != _form(posterior):
        must = f"`unfrozen()` of the posterior {type(posterior).__name__} must give one of the same family and form"
        raise _wrong(f"{must}, got {unfrozen!r}")
    return unfrozen


def _form(part: PyTree) -> Any:
    """Its structure, static fields included, and the shapes of its numbers."""
    leaves, structure = jax.tree.flatten(part)
    return structure, [np.shape(leaf) for leaf in leaves]


def check_family(role: str, family: DepthDistribution) -> None:
    """A family of one's own, by the rules that all else follows from.

    Args:
        role: of the family, in a sentence.
        family: with numbers, not traced.
    """
    called = f"the {role} {type(family).__name__}"
    check_fields("depth", called, family)
    log_masses = _asked(called, family, N_DEPTHS)
    depths = np.flatnonzero(log_masses > -np.inf)
    if not len(depths):
        raise _wrong(f"{called} must have mass at some depth below {N_DEPTHS}, and has none")
    first, last = depths[0], depths[-1]
    if len(depths) != last - first + 1:
        gap = np.setdiff1d(np.arange(first, last), depths)[0]
        raise _wrong(
            f"{called} must have mass at neighbouring depths, and has none at {gap}, between {first} and {last}"
        )
    total = np.exp(log_masses).sum()
    if not abs(total - 1) <= AMISS:
        raise _wrong(f"the masses of {called} must sum to one over the depths below {N_DEPTHS}, got {total:.6g}")
    # What a training asks for: as many depths as it stores, and some more. They all hold the mass, where it ends.
    counts = (int(last) + 1, max(128, int(last) + 2)) if last + 2 < N_DEPTHS else (128, 256)
    for n in counts:
        fewer = _asked(called, family, n)
        close = np.isclose(fewer, log_masses[:n], rtol=AMISS, atol=AMISS)
        if not close.all():
            i = np.argmin(close)
            raise _wrong(
                f"{called} must give the same masses however many are asked for, and ln P(L = {i}) is "
                f"{fewer[i]:.6g} of {n} and {log_masses[i]:.6g} of {N_DEPTHS}"
            )
    if role == "posterior":
        _check_gradient(called, family, counts[-1])


def _asked(called: str, family: DepthDistribution, n_depths: int) -> np.ndarray:
    """`log_masses(n_depths)`, of the right shape and without NaN."""
    given: Any = native.log_masses_by_jax(family, n_depths)
    shape, kind = getattr(given, "shape", None), getattr(given, "dtype", np.dtype(object))
    if shape != (n_depths,) or not jnp.issubdtype(kind, jnp.floating):
        got = f"a {type(given).__name__}" if shape is None else f"{kind} of shape {shape}"
        raise _wrong(f"`log_masses({n_depths})` of {called} must be {n_depths} floating-point numbers, got {got}")
    log_masses = np.asarray(given, float)
    nan = np.flatnonzero(np.isnan(log_masses))
    if len(nan):
        has = f"`log_masses({n_depths})` of {called} must have no NaN, got one for depth {nan[0]}"
        raise _wrong(f"{has}; outside the support it is -inf")
    return log_masses


def _check_gradient(called: str, family: DepthDistribution, n_depths: int) -> None:
    """NaN there would end the training at its first step."""
    slopes = jax.tree_util.tree_flatten_with_path(_slopes(family, n_depths))[0]
    for path, slope in slopes:
        if not np.isfinite(slope).all():
            raise _wrong(
                f"the gradient of {called} in `{_path(path)}` must be finite, got {np.asarray(slope)}; where "
                "`jnp.where` leaves a value out, what it leaves out needs a finite gradient, too"
            )


@jit_lightly
def _slopes(family: DepthDistribution, n_depths: int) -> PyTree:
    def of_entropy(family: DepthDistribution) -> Array:
        log_masses = family.log_masses(n_depths)
        return expectation(log_masses, log_masses)

    return eqx.filter_grad(of_entropy)(family)


def _moved(family: DepthDistribution) -> list[DepthDistribution]:
    """Where training could bring it, number by number."""
    leaves, structure = jax.tree.flatten(family)
    moved = []
    for i, leaf in enumerate(leaves):
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            shifted = [np.asarray(leaf) + np.asarray(shift, leaf.dtype) for shift in SHIFTS]
            moved += [jax.tree.unflatten(structure, [*leaves[:i], one, *leaves[i + 1 :]]) for one in shifted]
    return moved


def check_fields(argument: str, called: str, part: eqx.Module) -> None:
    """All that is not static must be arrays of numbers: nothing else is learned, stacked or saved.

    Args:
        argument: what the user gave it as.
        called: it, in a sentence.
        part: whose fields are looked at.
    """
    for path, leaf in jax.tree_util.tree_flatten_with_path(part)[0]:
        if not isinstance(leaf, jax.Array | np.ndarray):
            raise InvalidArgumentError(
                f"must be made of arrays, and `{_path(path)}` of {called} is {leaf!r}, which would not be learned; "
                "make it one, as `jnp.asarray(0.5, float)`, or a static field, with `equinox.field(static=True)`.",
                argument,
            )
        if leaf.dtype.name not in NUMBERS:
            raise InvalidArgumentError(
                f"must be made of arrays of {', '.join(NUMBERS)}, and `{_path(path)}` of {called} is {leaf.dtype}.",
                argument,
            )


def _path(path: Any) -> str:
    return jax.tree_util.keystr(path).lstrip(".")


def check_likelihood(likelihood: Likelihood, y: np.ndarray) -> None:
    """A likelihood of one's own gives a finite number for every row, for the targets that it lets pass itself.

    Args:
        likelihood: with numbers, not traced.
        y: targets [rows] or [rows, targets], checked by it.
    """
    if is_own(type(likelihood)):
        return
    called = type(likelihood).__name__
    check_fields("likelihood", called, likelihood)
    check_integer(f"n_outputs of {called}", likelihood.n_outputs, 1)
    n_rows = bucket(len(y))
    y = y[np.arange(n_rows) % len(y)]
    y = y.astype(np.int32 if y.dtype.kind in "iu" else jax.dtypes.canonicalize_dtype(float))
    output = np.random.default_rng(0).normal(size=(n_rows, likelihood.n_outputs))
    output = output.astype(jax.dtypes.canonicalize_dtype(float))
    log_prob = np.asarray(_log_prob(likelihood, output, y))
    if log_prob.shape != (n_rows,):
        raise InvalidArgumentError(
            f"must give a number for every row, and `log_prob` of {called} gives the shape {log_prob.shape} for "
            f"{n_rows} rows.",
            "likelihood",
        )
    amiss = np.flatnonzero(~np.isfinite(log_prob))
    if len(amiss):
        i = amiss[0]
        raise InvalidArgumentError(
            f"must give a finite number for every target that its `check_targets` lets pass, and `log_prob` of "
            f"{called} is {log_prob[i]} for the target {y[i]} at the output {output[i].round(3)}.",
            "likelihood",
        )


_log_prob = jit_lightly(lambda likelihood, output, y: likelihood.log_prob(output, y))


def _wrong(what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"`depth`: {what}.")
