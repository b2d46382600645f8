"""The engine beside the JAX code, which is its specification: the same draws, so number by number."""

import dataclasses
import os
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline import (
    RECIPES,
    CategoricalDepth,
    CategoricalLikelihood,
    FixedDepth,
    InvalidArgumentError,
    NormalDepth,
    PoissonDepth,
)
from leadline.backend.device import Backend, backend, pretending
from leadline.backend.native import build, library
from leadline.backend.random import normal
from leadline.inference import native
from leadline.inference.free_energy import weight_kl_by_layer
from leadline.inference.predict import evaluate_free_energy, log_likelihood, predict, sample_outputs
from leadline.inference.uncertainty import uncertainty
from leadline.likelihoods import GaussianLikelihood, HeteroscedasticLikelihood
from leadline.training.drawing import init_models

XLA = Backend("cpu")


def test_it_is_built_here():
    assert library.engine() is not None
    assert backend().has_engine


def test_its_normals_are_those_of_the_jax_code():
    key = jax.random.key(3)
    ours = library.normals(np.asarray(jax.random.key_data(key)), 100_000)
    theirs = np.asarray(normal(key, (100_000,), jnp.dtype("float32")))
    middle = np.abs(theirs) < 4  # further out, XLA's inverse of the error function has three digits
    np.testing.assert_allclose(ours[middle], theirs[middle], rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(ours, theirs, rtol=5e-3)
    assert abs(ours.mean()) < 4 / np.sqrt(100_000)


positions, scales = st.floats(-6, 12), st.floats(0.05, 5)
MEMBERS = {
    "real": lambda a, b: NormalDepth(a, b, 0.025, 0.975),
    "integer": lambda a, b: NormalDepth(a, b, 0.025, 0.975, "integer"),
    "whole": lambda a, b: NormalDepth(a, b),
    "poisson": lambda a, b: PoissonDepth(b, 0.95),
    "categorical": lambda a, b: eqx.tree_at(lambda q: q.logits, CategoricalDepth(2), jnp.array([a, b, 0.0])),
    "fixed": lambda a, b: FixedDepth(round(b)),
}


@pytest.mark.parametrize("family", MEMBERS)
@settings(max_examples=25)
@given(a=positions, b=scales)
def test_its_depths_have_the_masses_and_slopes_of_the_families(family, a, b):
    q = MEMBERS[family](a, b)
    batch = jax.tree.map(lambda leaf: np.asarray(leaf)[None], q)
    [kind], numbers = native.kinds_of(batch, 1), native.numbers_of(batch, 1)
    log, slope = np.empty(32), np.empty((32, kind.n_numbers))
    library.engine().leadline_masses(kind, library.at(numbers), 32, library.at(log), library.at(slope))
    theirs, by_numbers = _masses_and_slopes(q)
    np.testing.assert_allclose(np.exp(log), theirs, rtol=2e-3, atol=2e-5)
    # By the slopes of the masses, not of their logs: those of a bin at the window's edge are large and short of digits.
    np.testing.assert_allclose(np.exp(log)[:, None] * slope, by_numbers, rtol=2e-2, atol=2e-4)


def _masses_and_slopes(q):
    """P(L), and its slopes by every learned number, by JAX."""
    learned, rest = eqx.partition(q, eqx.is_inexact_array)
    masses = lambda learned: eqx.combine(learned, rest).pmf(32)  # noqa: E731
    columns = [np.zeros((32, 0))]
    if jax.tree.leaves(learned):
        columns += [np.asarray(slope).reshape(32, -1) for slope in jax.tree.leaves(jax.jacobian(masses)(learned))]
    return np.asarray(masses(learned)), np.concatenate(columns, axis=1)


def _models(likelihood, depth, prior="unit", runs=2, width=7, recipe="leadline"):
    recipe = dataclasses.replace(RECIPES[recipe], prior=prior)
    key = jax.random.split(jax.random.key(0), runs)
    with pretending(XLA):
        models = init_models(3, likelihood, depth=depth, recipe=recipe, width=width, key=key)
    return models, jax.random.split(jax.random.key(1), runs)


CASES = [
    (CategoricalLikelihood(3), "normal", "unit"),
    (GaussianLikelihood(2), "poisson", "fixed"),
    (HeteroscedasticLikelihood(1), 2, "weight"),
]


@pytest.mark.parametrize(("likelihood", "depth", "prior"), CASES)
def test_it_evaluates_what_the_jax_code_does(likelihood, depth, prior):
    models, key = _models(likelihood, depth, prior)
    assert native.suits(models)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3))
    y = rng.integers(3, size=300) if likelihood.kind == "classes" else rng.normal(size=(300, likelihood.n_targets))
    weight = rng.uniform(0.5, 2, size=300)

    def all_of_it():
        parts = uncertainty(models, x, n_samples=5, key=key)
        terms = evaluate_free_energy(models, x, y, weight=weight, n_samples=3, key=key)
        more = {}
        if likelihood.kind == "classes":
            more["predict"] = predict(models, x, n_samples=5, key=key)
            more["own rows"] = predict(models, np.stack([x, -x]), n_samples=2, key=key)
        return {
            **more,
            "log likelihood": log_likelihood(models, x, y, n_samples=5, key=key),
            "outputs": sample_outputs(models, x, n_samples=2, key=key),
            **{name: getattr(parts, name) for name in ("noise", "weights", "depth")},
            **{name: getattr(terms, name) for name in ("expected_nll", "depth_kl", "weight_kl")},
        }

    ours = all_of_it()
    with pretending(XLA):
        theirs = all_of_it()
    for name, expected in theirs.items():
        expected = np.asarray(expected)
        assert np.shape(ours[name]) == expected.shape, name
        np.testing.assert_allclose(ours[name], expected, rtol=1e-3, atol=2e-4 * np.abs(expected).max(), err_msg=name)


@pytest.mark.parametrize("prior", ["fixed", "unit", "weight"])
def test_its_kl_is_that_of_the_layers(prior):
    models, _ = _models(CategoricalLikelihood(2), "normal", prior)
    layers, heads = native.kl_by_part(models)
    q = np.exp(native.log_masses(models.depth_posterior, 2, models.capacity + 2))[:, :-1]
    used = np.cumsum(q[:, ::-1], axis=1)[:, ::-1]
    theirs = jax.vmap(weight_kl_by_layer)(models)
    np.testing.assert_allclose(used * layers, theirs["layers"], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(q * heads, theirs["heads"], rtol=1e-4, atol=1e-4)


def test_what_it_does_not_know_is_left_to_jax():
    class Mine(NormalDepth):
        pass

    models, _ = _models(CategoricalLikelihood(2), (NormalDepth(), Mine(0.0, 1.0, 0.025, 0.975)))
    assert not native.suits(models)
    plain, _ = _models(CategoricalLikelihood(2), "normal")
    assert native.suits(plain)
    other = _models(CategoricalLikelihood(2), "normal", "fixed")[0].network.deeper.head
    assert not native.suits(eqx.tree_at(lambda m: m.network.deeper.head, plain, other))  # it knows one prior for all
    with pretending(XLA):
        assert not native.suits(plain)


def test_every_build_says_the_same():
    """The plain one, that for AVX2 and that for AVX-512, as far as this machine runs them."""
    code = (
        "import numpy as np, ctypes; from leadline.backend.native import build, library\n"
        "level = int(__import__('sys').argv[1]); build.library = (lambda real: lambda _: real(level))(build.library)\n"
        "library.build.library = build.library\n"
        "print(*library.normals(np.array([1, 2], np.uint32), 8).tolist())"
    )
    can = library.engine().leadline_level()
    said = [
        subprocess.run([sys.executable, "-c", code, str(level)], capture_output=True, text=True, check=True).stdout
        for level in build.LEVELS
        if level <= can
    ]
    rows = [np.array(one.split(), float) for one in said]
    for row in rows:
        np.testing.assert_allclose(row, rows[0], rtol=1e-5)


def test_without_a_compiler_there_is_a_sentence(tmp_path):
    env = {**os.environ, "PATH": str(tmp_path), "CXX": ""}
    done = subprocess.run([sys.executable, build.__file__], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "The engine was not built: there is no C++ compiler (CXX, c++, g++ or clang++).\n"


def test_without_the_engine_there_is_a_word_once_and_everything_works(tmp_path):
    """As after an installation without a compiler; and a build from other sources is none."""
    code = """if True:
        import warnings
        from leadline.backend.native import build
        build.source = lambda: "other"
        from leadline.backend.device import backend
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            print(backend().has_engine, backend().has_engine, *[str(one.message)[:36] for one in said])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False the engine for CPUs is not built, an\n"
    env = {**os.environ, "LEADLINE_NATIVE": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_a_model_of_odd_sizes_is_refused_before_the_engine_reads_it():
    models, key = _models(CategoricalLikelihood(2), "normal")
    cut = eqx.tree_at(lambda m: m.network.deeper.head.weight_raw, models, replace_fn=lambda a: a[..., :-1])
    with pytest.raises(InvalidArgumentError, match="its deeper head must have"):
        predict(cut, np.zeros((3, 3)), n_samples=2, key=key)


def test_what_would_make_it_read_or_write_elsewhere_is_refused():
    models, key = _models(CategoricalLikelihood(2), "normal")
    x = np.zeros((3, 3))
    with pytest.raises(InvalidArgumentError, match="must predict numbers to have components"):
        sample_outputs(models, x, components=True, n_samples=2, key=key)
    other = eqx.tree_at(lambda m: m.likelihood, models, CategoricalLikelihood(400))
    with pytest.raises(InvalidArgumentError, match="its likelihood needs 400 outputs, got 2"):
        log_likelihood(other, x, np.full(3, 399), n_samples=2, key=key)
    whole = eqx.tree_at(lambda m: m.depth_posterior.loc, models, np.zeros(2, np.int32))
    with pytest.raises(InvalidArgumentError, match="its NormalDepth must have 2 numbers of float32, got 1"):
        predict(whole, x, n_samples=2, key=key)
    fixed, key = _models(CategoricalLikelihood(2), 2)
    below = eqx.tree_at(lambda m: m.depth_posterior.depth, fixed, np.full(2, -5, np.int32))
    assert np.all(native.log_masses(below.depth_posterior, 2, 8) == -np.inf)


def test_a_density_of_nothing_is_minus_infinity():
    models, key = _models(GaussianLikelihood(1), 1)
    assert np.all(log_likelihood(models, np.zeros((2, 3)), np.full((2, 1), 1e25), n_samples=3, key=key) == -np.inf)
