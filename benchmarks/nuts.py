"""NUTS beside q(L, theta): how far is the learned posterior over depths from the exact one, on problems so small that
this can be had? The tables and the figure of docs/nuts.md.

python benchmarks/nuts.py [--seeds 1 2 3] [--out results/nuts]    # a file for every problem; needs blackjax (`bench`)
python benchmarks/nuts_summary.py [--out results/nuts] [--picture docs/nuts.png]

One model for all: three units a layer, depths 0, 1 or 2 with equal p(L), weights N(0, 1), known noise. Its evidence at
every depth comes from tempered sequential Monte Carlo (benchmarks/evidence.py), checked against two that are known; the
predictions at every depth from NUTS; q(L, theta) from the recipes, and from `mean-field`: the recipe `leadline` at
temperature 1 with these priors, which is what one gets who minimises the free energy of this very model.
"""

import argparse
import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from evidence import Sampler, check
from jax.flatten_util import ravel_pytree
from scipy.special import logsumexp

import leadline
from leadline.datasets import spiral
from leadline.inference.predict import depth_masses

WIDTH, DEPTHS, NOISE = 3, (0, 1, 2), 0.2
N_ROWS, N_TEST = 40, 2000
PARTICLES, MOVES, REPEATS = 512, 12, 3
CHAINS, WARM_UP, DRAWS = 4, 500, 500
SAMPLES = 500

FAMILY = leadline.CategoricalDepth(max(DEPTHS)), leadline.CategoricalDepth(max(DEPTHS))
"""p(L), and the q(L) to start from: both uniform."""

MEAN_FIELD = replace(leadline.RECIPES["leadline"], name="mean-field", temperature=1.0, prior="fixed")


class KnownNoise(leadline.GaussianLikelihood):
    """N(y | output, scale^2) with the scale that it begins with: its gradient is zero."""

    def __init__(self, scale: float):
        super().__init__(1, scale)

    @property
    def scale(self) -> Any:
        return jax.lax.stop_gradient(super().scale)


def rows(kind: str, seed: int) -> leadline.Problem:
    """A spiral's two arms, or a sine with noise; rows to validate on are those trained on."""
    rng = np.random.default_rng(seed)
    if kind == "classes":
        train, test = (spiral(n, 4.0, rng) for n in (N_ROWS, N_TEST))
        return leadline.Problem(train, train, leadline.CategoricalLikelihood(2), test=test)

    def sine(n: int) -> tuple[np.ndarray, np.ndarray]:
        x = rng.uniform(-2, 2, (n, 1))
        return x, np.sin(3 * x) + NOISE * rng.normal(size=(n, 1))

    train, test = sine(N_ROWS), sine(N_TEST)
    return leadline.Problem(train, train, KnownNoise(NOISE), test=test)


class Exact:
    """The posterior of one kind of problem, by sampling."""

    def __init__(self, kind: str):
        problem = rows(kind, 0)
        models = leadline.init_models(
            problem.train[0].shape[1],
            problem.likelihood,
            depth=FAMILY,
            recipe="written",
            width=WIDTH,
            capacity=max(DEPTHS),
            key=jax.random.split(jax.random.key(0), 1),
        )
        self.model = model = leadline.run_model(models, 0)
        draws = leadline.sample_weights(model, n_samples=1, key=jax.random.key(0))
        point, self.back = ravel_pytree(jax.tree.map(lambda a: a[0], draws))
        self.n_weights = point.size

        def log_prior(theta: jax.Array, given: Any) -> jax.Array:
            return jax.scipy.stats.norm.logpdf(theta).sum()

        def log_likelihood(theta: jax.Array, given: Any) -> jax.Array:
            x, y, depth = given
            joint = leadline.log_joint(model, self.back(theta), x, y, depth=depth)
            return joint - log_prior(theta, given) + np.log(len(DEPTHS))

        self.log_prior, self.log_likelihood = log_prior, log_likelihood
        self.sampler = Sampler(log_prior, log_likelihood, n_moves=MOVES)
        self.nuts = jax.jit(jax.vmap(self._chain, (None, 0)))

    def given(self, problem: leadline.Problem, depth: int) -> Any:
        x, y = problem.train
        return jnp.asarray(x, float), jnp.asarray(y), jnp.array(depth)

    def log_p(self, draws: jax.Array, problem: leadline.Problem, depth: int) -> np.ndarray:
        """ln p(y | x, theta, L) of the test rows, draws by rows."""
        assert problem.test is not None
        x, y = problem.test
        one_by_one = jax.vmap(self.back)(draws.reshape(-1, self.n_weights))
        outputs = leadline.outputs_by_depth(self.model, one_by_one, x)[:, depth]
        log_prob = jax.vmap(self.model.likelihood.log_prob, (0, None))
        return np.asarray(log_prob(outputs, jnp.asarray(y)), float)

    def depth(self, problem: leadline.Problem, depth: int, seed: int) -> tuple[dict[str, Any], Any]:
        """What there is to know of one depth, and ln p(y | x, L) of the test rows by NUTS and by the particles."""
        given, found = self.given(problem, depth), []
        for i in range(REPEATS):
            key, start = jax.random.split(jax.random.fold_in(jax.random.key(seed), 10 * depth + i))
            particles = jax.random.normal(start, (PARTICLES, self.n_weights))
            found.append(self.sampler.log_evidence(particles, given, key=key))
        each = [one.log_evidence for one in found]
        log_z, log_z_error = mean_evidence(each)
        by_smc = self.log_p(found[0].particles, problem, depth)
        draws, ll = self.nuts(given, jax.random.split(jax.random.fold_in(jax.random.key(seed), 100 + depth), CHAINS))
        by_nuts = self.log_p(draws[:, :: DRAWS // 250], problem, depth)
        said = {
            "log_evidence": log_z,
            "log_evidence_error": log_z_error,
            "log_evidence_each": each,
            "steps": found[0].steps,
            "accepted": found[0].accepted,
            "r_hat": r_hat(np.asarray(ll, float)),
            "nll_nuts": -float(mean_of_draws(by_nuts).mean()),
            "nll_smc": -float(mean_of_draws(by_smc).mean()),
        }
        return said, (mean_of_draws(by_nuts), mean_of_draws(by_smc))

    def all_depths(self, problem: leadline.Problem, seed: int) -> dict[str, Any]:
        """P(L | y), and the predictions of all depths together."""
        each, log_p = zip(*(self.depth(problem, depth, seed) for depth in DEPTHS), strict=True)
        log_z = np.array([one["log_evidence"] for one in each])
        errors = np.array([one["log_evidence_error"] for one in each])
        p = softmax(log_z)
        spread = [softmax(log_z + errors * z) for z in np.random.default_rng(0).normal(size=(1000, len(DEPTHS)))]
        nuts, smc = (
            -np.mean(np.asarray(logsumexp(np.log(p)[:, None] + [one[i] for one in log_p], axis=0))) for i in (0, 1)
        )
        return {
            "depths": each,
            "p": p.tolist(),
            "p_error": np.std(spread, axis=0).tolist(),
            "nll_nuts": float(nuts),
            "nll_smc": float(smc),
        }

    def _chain(self, given: Any, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """One chain of NUTS from a draw of the prior: its draws, and their log likelihood."""
        import blackjax  # pyright: ignore[reportMissingImports]

        def target(theta: jax.Array) -> jax.Array:
            return self.log_prior(theta, given) + self.log_likelihood(theta, given)

        of_start, of_warm_up, of_draws = jax.random.split(key, 3)
        start = jax.random.normal(of_start, (self.n_weights,))
        warm_up: Any = blackjax.window_adaptation(blackjax.nuts, target, max_num_doublings=7)
        (state, parameters), _ = warm_up.run(of_warm_up, start, WARM_UP)
        kernel = blackjax.nuts(target, **parameters).step

        def draw(state: Any, key: jax.Array) -> tuple[Any, tuple[jax.Array, jax.Array]]:
            state, _ = kernel(key, state)
            return state, (state.position, self.log_likelihood(state.position, given))

        return jax.lax.scan(draw, state, jax.random.split(of_draws, DRAWS))[1]


def head_integrated_out(exact: Exact, problem: leadline.Problem, n_rows: int = 8, n: int = 2_000_000) -> dict[str, Any]:
    """Of numbers at depth 0: given the first layer the head is linear, and y is Gaussian. So the evidence is a mean
    over the first layer's six weights, which draws from their prior give, of a few rows, with a small standard error.
    """
    x, y = (np.asarray(a[:n_rows], float) for a in problem.train)
    rng, terms = np.random.default_rng(0), []
    for _ in range(n // 50_000):
        weight, bias = rng.normal(size=(2, 50_000, 1, WIDTH))
        hidden = x * weight + bias
        features = np.concatenate([np.maximum(0.1 * hidden, hidden), np.ones((*hidden.shape[:2], 1))], axis=2)
        inner = np.eye(WIDTH + 1) + np.swapaxes(features, 1, 2) @ features / NOISE**2
        projected = np.swapaxes(features, 1, 2) @ y / NOISE**2
        quadratic = (y**2).sum() / NOISE**2 - (projected * np.linalg.solve(inner, projected)).sum(axis=(1, 2))
        log_det = np.linalg.slogdet(inner)[1] + len(y) * np.log(2 * np.pi * NOISE**2)
        terms.append(-0.5 * (quadratic + log_det))
    log_p = np.concatenate(terms)
    log_mean = logsumexp(log_p) - np.log(n)
    found = []
    for i in range(2 * REPEATS):
        key, start = jax.random.split(jax.random.fold_in(jax.random.key(77), i))
        particles = jax.random.normal(start, (PARTICLES, exact.n_weights))
        given = jnp.asarray(x), jnp.asarray(y), jnp.array(0)
        found.append(exact.sampler.log_evidence(particles, given, key=key).log_evidence)
    smc, smc_error = mean_evidence(found)
    return {
        "what": f"numbers at depth 0, the first {n_rows} rows",
        "exact": float(log_mean),
        "exact_error": float(np.exp(log_p - log_mean).std() / np.sqrt(n)),
        "smc": smc,
        "smc_error": smc_error,
        "each": found,
    }


def softmax(log_weights: np.ndarray) -> np.ndarray:
    return np.exp(log_weights - logsumexp(log_weights))


def mean_evidence(each: list[float]) -> tuple[float, float]:
    """ln of the mean of estimates of p(y), which are unbiased as their logs are not; and its standard error."""
    relative = np.exp(np.array(each) - max(each))
    mean = relative.mean()
    return float(max(each) + np.log(mean)), float(relative.std(ddof=1) / np.sqrt(len(each)) / mean)


def mean_of_draws(log_p: np.ndarray) -> np.ndarray:
    return logsumexp(log_p, axis=0) - np.log(len(log_p))


def r_hat(chains: np.ndarray) -> float:
    """Of chains by draws, split in halves (Gelman et al. 2013)."""
    halves = chains.reshape(2 * len(chains), -1)
    within = halves.var(axis=1, ddof=1).mean()
    between = halves.mean(axis=1).var(ddof=1)
    n = halves.shape[1]
    return float(np.sqrt((n - 1) / n + between / within))


def variational(problem: leadline.Problem, seed: int) -> dict[str, Any]:
    """What the recipes learn, and the free energies of fixed depths by `mean-field`."""
    common = leadline.Settings(depth=FAMILY, width=WIDTH, batch_size=N_ROWS, seed=seed)
    results: dict[str, Any] = {}
    for recipe in (MEAN_FIELD, *map(leadline.RECIPES.__getitem__, ("written", "leadline", "published"))):
        trained = leadline.train(problem, replace(common, recipe=recipe))
        results[recipe.name] = learned(trained, problem, 0)
    fixed = [replace(common, depth=depth, recipe=MEAN_FIELD) for depth in DEPTHS]
    trained = leadline.train(problem, fixed)
    results["fixed"] = [learned(trained, problem, i) for i in range(len(DEPTHS))]
    return results


def learned(trained: leadline.Trained, problem: leadline.Problem, fit: int) -> dict[str, Any]:
    """q(L), the free energy and the test NLL of the restarts of a fit."""
    assert problem.test is not None
    models, n = trained.restarts(fit).models, trained.n_restarts
    keys = jax.random.split(jax.random.key(7), n)
    terms = leadline.evaluate_free_energy(models, *problem.train, n_samples=SAMPLES, key=keys)
    log_p = leadline.log_likelihood(models, *problem.test, n_samples=SAMPLES, key=keys).astype(float)
    q = depth_masses(models)[:, : len(DEPTHS)]
    return {
        "q": q.mean(axis=0).tolist(),
        "q_each": q.tolist(),
        "free_energy": float(np.min(terms.total)),
        "free_energy_each": np.asarray(terms.total, float).tolist(),
        "nll": -float(mean_of_draws(log_p).mean()),
        "nll_each": (-log_p.mean(axis=1)).tolist(),
        "temperature": float(trained.temperature[fit]),
    }


def estimator(kind: str, problem: leadline.Problem, seed: int) -> dict[str, Any]:
    """The default estimator, which learns prior scales and noise too; with this width and these depths."""
    assert problem.test is not None
    (x, y), (x_test, y_test) = problem.train, problem.test
    given = {"width": WIDTH, "depth": FAMILY, "random_state": seed}
    if kind == "classes":
        model = leadline.DepthClassifier(**given).fit(x, y)
        nll = -np.log(model.predict_proba(x_test)[np.arange(N_TEST), y_test]).mean()
    else:
        model = leadline.DepthRegressor(**given).fit(x, y[:, 0])
        nll = -model.log_likelihood(x_test, y_test[:, 0]).mean()
    return {"q": model.depth_pmf_[: len(DEPTHS)].tolist(), "nll": float(nll)}


def study(exact: Exact, kind: str, seed: int) -> dict[str, Any]:
    """All of one problem."""
    since, problem = time.process_time(), rows(kind, seed)
    found = {"kind": kind, "seed": seed, "n_weights": exact.n_weights, **exact.all_depths(problem, seed)}
    found["variational"] = {**variational(problem, seed), "default": estimator(kind, problem, seed)}
    return {**found, "cpu_seconds": round(time.process_time() - since), "version": leadline.__version__}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path, default=Path("results/nuts"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    exact = {kind: Exact(kind) for kind in ("classes", "numbers")}
    jobs: dict[str, Any] = {
        "check-linear": lambda: check(PARTICLES, MOVES, range(8)),
        "check-depth-0": lambda: head_integrated_out(exact["numbers"], rows("numbers", 1)),
    }
    for seed in given.seeds:
        jobs |= {f"{kind}-{seed}": partial(study, one, kind, seed) for kind, one in exact.items()}
    for name, job in jobs.items():
        path = given.out / f"{name}.json"
        if not path.exists():
            path.write_text(json.dumps(job(), indent=1) + "\n")
            print(f"{path} is there", flush=True)


if __name__ == "__main__":
    main()
