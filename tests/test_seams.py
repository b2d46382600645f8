"""What a newcomer adds: one file, in a copy of the package, and it is there in estimator, command line, record, page
and model file. Real processes, on a small table."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import leadline

FAMILY = '''
"""P(L) proportional to ratio^L on 0 .. 5; the ratio is learned."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from leadline.depth.base import DepthDistribution, Pair, Start


class GeometricDepth(DepthDistribution):
    name: ClassVar[str] = "geometric"
    colour: ClassVar[str] = "#2a7fb8"

    logit: Float[Array, ""]

    @classmethod
    def pair(cls, start: Start) -> Pair:
        return cls(jnp.array(0.0, float)), cls(jnp.array(1.0, float))

    def log_masses(self, n_depths: int) -> Float[Array, " depths"]:
        depth = jnp.arange(n_depths)
        log_masses = jnp.where(depth <= 5, depth * jax.nn.log_sigmoid(self.logit), -jnp.inf)
        return log_masses - jax.nn.logsumexp(log_masses)
'''

COUNTS = '''
"""Counts: y ~ Poisson(exp(output))."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
import scipy.stats

from leadline.likelihoods.mixture import Mixture
from leadline.likelihoods.numbers import NumberLikelihood


class PoissonMixture(Mixture):
    def component_cdf(self, y):
        """In the middle of the step at y: so that levels are fair for whole numbers, too."""
        return scipy.stats.poisson.cdf(y, self.mean) - 0.5 * scipy.stats.poisson.pmf(np.round(y), self.mean)

    def log_densities(self, y):
        return scipy.stats.poisson.logpmf(np.round(y), self.mean)


class PoissonLikelihood(NumberLikelihood):
    name: ClassVar[str] = "counts"
    mixture: ClassVar[Callable[..., Mixture]] = PoissonMixture
    recipe_changes: ClassVar[dict[str, Any]] = {"leadline": {"temperature": 1.0}}

    n_targets: int = eqx.field(static=True, default=1)

    @property
    def n_outputs(self):
        return self.n_targets

    @property
    def least_scale(self):
        return jnp.full(self.n_targets, 0.1)

    def log_prob(self, output, y):
        return jnp.sum(jax.scipy.stats.poisson.logpmf(y, jnp.exp(output)), axis=-1)

    def mean_and_scale(self, output):
        rate = jnp.exp(output)
        return rate, jnp.sqrt(rate)

    @staticmethod
    def scaling(y, weight=None):
        """Counts are counts."""
        return np.zeros(y.shape[1:]), np.ones(y.shape[1:])

    def nll_of_guessing(self, y, weight):
        rate = np.average(y, axis=0, weights=weight)
        return float(-np.average(scipy.stats.poisson.logpmf(y, rate).sum(axis=1), weights=weight))
'''

METRIC = """

add_measure(
    Measure(
        *("zero_one", "classes", "Wrong answers", "Rows whose most probable class is a wrong one, of 100."),
        *(lambda said: 100 - accuracy(*said), in_percent),
    )
)
"""

BLOCK = '''
"""A dense layer beside which the state goes on as it is."""

from typing import ClassVar

from leadline.network.blocks.dense import Dense


class Skipping(Dense):
    name: ClassVar[str] = "skipping"
    has_kernel: ClassVar[bool] = False

    def step(self, state, *, key, draw):
        further = super().step(state, key=key, draw=draw)
        return further if state.shape != further.shape else state + further
'''

SMALL = ("--width", 4, "--restarts", 2, "--epochs", 30, "--quiet")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the package with one file more for each of the parts, and one entry more among the measures."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(Path(leadline.__file__).parent, folder / "leadline", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "leadline" / "depth" / "geometric.py").write_text(FAMILY)
    (folder / "leadline" / "likelihoods" / "counts.py").write_text(COUNTS)
    (folder / "leadline" / "network" / "blocks" / "skipping.py").write_text(BLOCK)
    with (folder / "leadline" / "metrics.py").open("a") as file:
        file.write(METRIC)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 3))
    kind = np.where(x[:, 0] > 0, "big", "small")
    counts = rng.poisson(np.exp(1 + x[:, 0]))
    rows = "".join(f"{a},{b},{c},{k},{n}\n" for (a, b, c), k, n in zip(x, kind, counts, strict=True))
    (folder / "table.csv").write_text("a,b,c,kind,count\n" + rows)
    return folder


COMMANDS = """if True:
    import json, sys
    from leadline.cli import main
    for command in json.loads(sys.argv[1]):
        sys.argv = ["leadline", *command]
        try:
            main()
        except SystemExit as end:
            assert end.code == 0, end.code
"""


def python(package, code, *arguments):
    """What a process says that imports the copy."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=package,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(package), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def leadline_there(package, *commands):
    return python(package, COMMANDS, json.dumps([[*map(str, command)] for command in commands]))


def fitted(package, out, target, *options):
    """A fit on the command line: its record, its page, and what the model in its file predicts."""
    leadline_there(
        package,
        ("fit", "table.csv", "--target", target, "--out", out, *SMALL, *options),
        ("report", out),
        ("predict", out, "table.csv", "--out", f"{out}.csv", "--quiet"),
    )
    record = json.loads((package / out / "record.json").read_text())
    return record, (package / out / "report.html").read_text(), (package / f"{out}.csv").read_text()


AGAIN = """if True:
    import numpy as np
    from leadline import DepthClassifier, DepthRegressor, load
    table = np.genfromtxt("table.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")[:108]
    x = np.column_stack([table[name] for name in "abc"])
    small = {"width": 4, "n_restarts": 2, "max_iter": 30, "random_state": 0}
"""
"""The same rows and sizes in Python: the programs on disk serve."""


@pytest.mark.slow  # `tests/test_registry.py` has all three together, by a plugin
def test_a_depth_family_is_one_file(package):
    record, page, predictions = fitted(package, "family", "kind", "--ignore", "count", "--depth", "geometric")
    assert record["depth"] == "geometric"
    assert len(record["depth_pmf"]) == 6
    assert "geometric" in page
    assert predictions.startswith("kind,p(big),p(small)")
    code = f"""{AGAIN}
    clf = DepthClassifier(depth="geometric", **small).fit(x, table["kind"])
    clf.save("model")
    again = load("model")
    assert np.array_equal(again.predict_proba(x), clf.predict_proba(x))
    print(type(again.model_.depth_posterior).__name__)
    """
    assert python(package, code) == "GeometricDepth\n"


@pytest.mark.slow  # `tests/test_registry.py` has all three together, by a plugin
def test_a_likelihood_for_counts_is_one_file(package):
    given = ("--task", "regression", "--ignore", "kind", "--likelihood", "counts", "--epochs", 300)
    record, page, predictions = fitted(package, "counts", "count", *given)
    assert record["settings"]["likelihood"] == "counts"
    assert np.isfinite([record["rmse"], record["ll_mixture"], record["ll_gaussian"]]).all()
    assert 0 <= record["coverage_50"] <= record["coverage_95"] <= 1
    assert "ln(density at the true value)" in page
    table = np.genfromtxt(predictions.splitlines(), delimiter=",", names=True)
    assert (table["count"] > 0).all()
    np.testing.assert_array_less(table["low_90"], table["high_90"])
    code = f"""{AGAIN}
    import scipy.stats
    y = table["count"]
    reg = DepthRegressor(likelihood="counts", **(small | dict(max_iter=300))).fit(x, y)
    reg.save("model")
    again = load("model")
    assert np.array_equal(again.predict(x), reg.predict(x))
    mean, std = reg.predict(x, return_std=True)
    assert (std >= np.sqrt(mean) * 0.99).all()
    print(bool(reg.log_likelihood(x, y).mean() > scipy.stats.poisson(y.mean()).logpmf(y).mean()))
    """
    assert python(package, code) == "True\n"


def test_a_measure_is_one_entry(package):
    record, page, _ = fitted(package, "measure", "kind", "--ignore", "count")
    assert record["zero_one"] == pytest.approx(100 - record["accuracy"])
    assert "Wrong answers" in page
    out = package / "paper"
    given = ("--omegas", 3, "--runs", 1, "--recipe", "published", "--depth", "normal", "--epochs", 3, "--quiet")
    leadline_there(package, ("reproduce", "--out", out, *given))
    assert ",zero_one," in (out / "published-normal.csv").read_text().splitlines()[0]


@pytest.mark.slow  # `tests/test_registry.py` has all three together, by a plugin
def test_a_block_is_one_file(package):
    record, page, _ = fitted(package, "block", "kind", "--ignore", "count", "--block", "skipping", "--depth", 3)
    assert record["block"] == "skipping"
    assert "skipping" in page
