"""Evidence by tempered sequential Monte Carlo: for benchmarks/nuts.py, which checks it where the evidence is known.

Particles drawn from the prior move to the posterior through p(theta) p(y | theta)^t, t = 0 .. 1 (Del Moral et al. 2006;
Neal 2001). Each step takes t so far that the effective sample size falls to a share of the particles; the mean of the
weights of all steps, multiplied, is an estimate of p(y).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

LogDensity = Callable[[jax.Array, Any], jax.Array]
"""Of one theta, a vector, and what else is given (rows, a depth): a pytree of arrays."""

SHARE = 0.8
"""The effective sample size after a step, as a share of the particles."""

LEAPS = 8
"""Of a Hamiltonian move."""

WANTED = 0.8
"""Share of the moves that are taken."""


class Evidence(NamedTuple):
    """What one run of the sampler says."""

    log_evidence: float
    particles: jax.Array
    """Of the posterior, [particles, dimensions]."""
    steps: int
    accepted: float
    """Share of the moves, over all steps."""


class Sampler:
    """One program for all that is given in one shape."""

    def __init__(self, log_prior: LogDensity, log_likelihood: LogDensity, *, n_moves: int):
        """`n_moves` are Hamiltonian moves of every particle after each step of t."""
        self._temper = jax.jit(partial(_temper, log_prior, log_likelihood, n_moves))
        self._start = jax.jit(jax.vmap(log_likelihood, (0, None)))

    def log_evidence(self, particles: jax.Array, given: Any, *, key: jax.Array) -> Evidence:
        """ln p(y) = ln E_p(theta) p(y | theta), and draws from the posterior; `particles` are draws from the prior."""
        t, total, size, accepted = jnp.array(0.0), 0.0, jnp.array(0.1), []
        ll = self._start(particles, given)
        while t < 1:
            key, now = jax.random.split(key)
            t, gain, particles, ll, size, share = self._temper(given, t, particles, ll, size, now)
            total, accepted = total + float(gain), [*accepted, float(share)]
        return Evidence(total, particles, len(accepted), float(np.mean(accepted)))


def _temper(
    log_prior: LogDensity,
    log_likelihood: LogDensity,
    n_moves: int,
    given: Any,
    t: jax.Array,
    particles: jax.Array,
    ll: jax.Array,
    size: jax.Array,
    key: jax.Array,
) -> tuple[jax.Array, ...]:
    """One step of t: weights, resampling, moves."""
    n = len(particles)

    def halve(_: Any, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = (low + high) / 2
        weight = jax.nn.softmax(middle * ll)
        enough = 1 / jnp.sum(weight**2) > SHARE * n
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

    whole = 1 / jnp.sum(jax.nn.softmax((1 - t) * ll) ** 2) > SHARE * n
    further = jnp.where(whole, 1 - t, jax.lax.fori_loop(0, 30, halve, (jnp.array(0.0), 1 - t))[0])
    gain = jax.nn.logsumexp(further * ll) - jnp.log(n)
    keys = jax.random.split(key, n_moves + 1)
    places = (jax.random.uniform(keys[0]) + jnp.arange(n)) / n  # systematic
    chosen = jnp.searchsorted(jnp.cumsum(jax.nn.softmax(further * ll)), places)
    particles = particles[jnp.minimum(chosen, n - 1)]
    t = jnp.where(whole, 1.0, t + further)
    scale = particles.std(axis=0) + 1e-3

    def target(theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        ll = log_likelihood(theta, given)
        return log_prior(theta, given) + t * ll, ll

    slope = jax.vmap(jax.value_and_grad(target, has_aux=True))

    def move(carry: tuple[jax.Array, ...], key: jax.Array) -> tuple[tuple[jax.Array, ...], jax.Array]:
        theta, value, ll, gradient, size = carry
        of_momentum, of_size, of_choice = jax.random.split(key, 3)
        momentum = jax.random.normal(of_momentum, theta.shape)
        step = size * jax.random.uniform(of_size, (n, 1), minval=0.5, maxval=1.5) * scale

        def leap(_: Any, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
            theta, momentum, _, _, gradient = state
            momentum = momentum + step / 2 * gradient
            theta = theta + step * momentum
            (value, ll), gradient = slope(theta)
            return theta, momentum + step / 2 * gradient, value, ll, gradient

        new = jax.lax.fori_loop(0, LEAPS, leap, (theta, momentum, value, ll, gradient))
        energy = new[2] - value - 0.5 * (new[1] ** 2 - momentum**2).sum(axis=1)
        probability = jnp.where(jnp.isnan(energy), 0.0, jnp.minimum(1.0, jnp.exp(energy)))
        taken = jax.random.uniform(of_choice, (n,)) < probability
        theta, value, ll, gradient = (
            jnp.where(taken[:, None] if a.ndim == 2 else taken, a, b)
            for a, b in zip((new[0], *new[2:]), (theta, value, ll, gradient), strict=True)
        )
        share = probability.mean()
        return (theta, value, ll, gradient, size * jnp.exp(share - WANTED)), share

    (value, ll), gradient = slope(particles)
    (particles, _, ll, _, size), shares = jax.lax.scan(move, (particles, value, ll, gradient, size), keys[1:])
    return t, gain, particles, ll, size, shares.mean()


def check(n_particles: int, n_moves: int, seeds: range) -> dict[str, object]:
    """Bayesian linear regression with sixty weights: ln p(y) in closed form, and by the sampler."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 60)) / np.sqrt(10)
    y = x @ rng.normal(size=60) + 0.3 * rng.normal(size=40)
    covariance = x @ x.T + 0.09 * np.eye(40)
    exact = -0.5 * (y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(2 * np.pi * covariance)[1])
    sampler = Sampler(
        lambda theta, given: jax.scipy.stats.norm.logpdf(theta).sum(),
        lambda theta, given: jax.scipy.stats.norm.logpdf(given[1], given[0] @ theta, 0.3).sum(),
        n_moves=n_moves,
    )
    given = jnp.asarray(x), jnp.asarray(y)
    found = []
    for seed in seeds:
        particles = jax.random.normal(jax.random.key(seed), (n_particles, 60))
        found.append(sampler.log_evidence(particles, given, key=jax.random.key(1000 + seed)))
    values = [one.log_evidence for one in found]
    return {
        "what": "linear regression, 60 weights, 40 rows, noise 0.3",
        "exact": float(exact),
        "smc": float(np.mean(values)),
        "smc_error": float(np.std(values, ddof=1) / np.sqrt(len(values))),
        "each": values,
        "steps": found[0].steps,
        "accepted": found[0].accepted,
    }
