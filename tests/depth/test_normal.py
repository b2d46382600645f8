"""The discrete truncated normal against fifty digits, the paper's curves, and its whole parameter range."""

import csv
from importlib.resources import files

import equinox as eqx
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline import CategoricalDepth, FixedDepth, InvalidArgumentError, NormalDepth, PoissonDepth
from tests.depth import reference
from tests.tolerances import GRADIENT

WINDOW = (0.025, 0.975)
# Log masses, relative: what the issue of the tails asks for.
LOG_MASS = {"float32": 1e-5, "float64": 1e-10}


def published(name):
    with (files("leadline") / "published" / f"published_{name}_logpmf.csv").open() as file:
        rows = list(csv.DictReader(file))
    return {family: np.array([float(row[family]) for row in rows]) for family in ("normal", "poisson")}


@pytest.mark.parametrize(
    ("name", "normal", "rate"), [("prior", (0.0, 1.15), 0.5), ("initial", (0.0, 1.8), 1.0)], ids=["prior", "initial"]
)
def test_untruncated_masses_agree_with_the_published_curves(name, normal, rate):
    """To 2e-6 up to depth 7, in float64; beyond it the published arithmetic gives out."""
    curves = published(name)
    with jax.enable_x64(True):
        np.testing.assert_allclose(NormalDepth(*normal).log_masses(8), curves["normal"][:8], atol=2e-6, rtol=0)
        np.testing.assert_allclose(PoissonDepth(rate).log_masses(8), curves["poisson"][:8], atol=2e-6, rtol=0)


def test_published_files_are_the_papers(shared):
    for path in (shared / "paper").glob("published_*.csv"):
        assert (files("leadline") / "published" / path.name).read_text() == path.read_text()


@pytest.mark.parametrize(
    "params", [(0.0, 1.15), (0.0, 1.8), (3.2, 0.5), (-5.0, 0.01), (-5.0, 5.0), (50.0, 20.0), (12.5, 0.2)]
)
def test_log_masses_agree_with_fifty_digits(params, precision):
    q = NormalDepth(*params)
    loc, scale = float(q.loc), float(q.scale)
    expected = [reference.log(reference.normal_mass(depth, depth + 1, loc, scale)) for depth in range(31)]
    # Near mass 1 the logarithm is near 0 and its relative error means nothing: allow one part in 1e5 of the mass.
    np.testing.assert_allclose(
        jax.jit(lambda: q.log_masses(31))(), expected, rtol=LOG_MASS[precision], atol=LOG_MASS[precision] / 10
    )


def test_prior_at_depth_ten(precision):
    assert float(NormalDepth(0.0, 1.15).log_mass(10)) == pytest.approx(-40.2089364719691, rel=LOG_MASS[precision])


@pytest.mark.parametrize("params", [(0.0, 1.8), (2.3, 1.4), (-3.0, 1.0), (3.5, 0.2), (20.0, 6.0)])
def test_windows_agree_with_their_definition(params, precision):
    """Real bounds cut the edge bins at the quantiles a and b; integer bounds widen to whole bins and renormalise."""
    loc, scale = params
    a, b = (reference.normal_quantile(p, loc, scale) for p in WINDOW)
    depths = range(int(mpmath.ceil(b)) + 3)

    def clip(x):
        return min(max(mpmath.mpf(x), a), b)

    real = [float(reference.normal_mass(clip(k), clip(k + 1), loc, scale) / (WINDOW[1] - WINDOW[0])) for k in depths]
    first, last = int(mpmath.floor(a)), int(mpmath.ceil(b))
    whole = reference.normal_mass(first, last, loc, scale)
    integer = [float(reference.normal_mass(k, k + 1, loc, scale) / whole) if first <= k < last else 0.0 for k in depths]
    tolerance = LOG_MASS[precision]
    np.testing.assert_allclose(NormalDepth(loc, scale, *WINDOW).pmf(len(depths)), real, atol=tolerance)
    np.testing.assert_allclose(NormalDepth(loc, scale, *WINDOW, "integer").pmf(len(depths)), integer, atol=tolerance)
    assert [int(end) for end in NormalDepth(loc, scale, *WINDOW, "integer").support()] == [first, last - 1]


def test_a_new_depth_enters_with_no_mass_under_real_bounds():
    """As loc grows the highest depth's mass starts from zero; with integer bounds it jumps."""
    locs = np.linspace(2.0, 3.0, 400)
    for bounds, jumps in (("real", False), ("integer", True)):
        pmf = jax.jit(jax.vmap(lambda loc, bounds=bounds: NormalDepth(loc, 0.6, *WINDOW, bounds).pmf(8)))(locs)
        assert bool(jnp.abs(jnp.diff(pmf, axis=0)).max() > 0.01) == jumps


@settings(max_examples=200)
@given(loc=st.floats(-5, 50), scale=st.floats(0.01, 20), window=st.sampled_from([(0.0, 1.0), WINDOW]))
@pytest.mark.parametrize("bounds", ["real", "integer"])
def test_never_nan_and_gradients_finite_over_the_whole_range(loc, scale, window, bounds):
    q = NormalDepth(loc, scale, *window, bounds)
    log_masses, gradients = _masses_and_gradients(q)
    assert not np.any(np.isnan(log_masses))
    assert float(np.exp(log_masses).sum()) == pytest.approx(1, abs=1e-5)
    assert all(np.all(np.isfinite(g)) for g in jax.tree.leaves(gradients))


@eqx.filter_jit
def _masses_and_gradients(q):
    """The log masses, and the gradient of each one that is finite."""
    log_masses = q.log_masses(256)
    return log_masses, eqx.filter_jacrev(lambda q: jnp.where(log_masses > -jnp.inf, q.log_masses(256), 0.0))(q)


def test_gradients_agree_with_fifty_digits_in_the_tails(precision):
    """d ln P(L) / d loc far from loc, where a quotient of tiny numbers would be noise."""
    for loc, scale in [(0.0, 0.1), (30.0, 0.5), (3.0, 1.15)]:
        h = mpmath.mpf("1e-15")

        def log_mass(k, shift, loc=loc, scale=scale):
            return mpmath.log(reference.normal_mass(k, k + 1, loc + shift, scale))

        expected = [float((log_mass(k, h) - log_mass(k, -h)) / (2 * h)) for k in range(12)]
        slopes = jax.jit(jax.jacrev(lambda loc, scale=scale: NormalDepth(loc, scale).log_masses(12)))
        np.testing.assert_allclose(slopes(jnp.asarray(loc)), expected, rtol=GRADIENT, atol=GRADIENT)


def test_the_smallest_quantile_of_a_truncated_poisson():
    from scipy import stats

    for rate in (0.01, 0.5, 1.0, 3.7, 12.0):
        q = PoissonDepth(rate, 0.95)
        highest = int(stats.poisson.ppf(0.95, rate))
        expected = stats.poisson.pmf(np.arange(highest + 1), rate) / stats.poisson.cdf(highest, rate)
        assert int(q.support()[1]) == highest
        np.testing.assert_allclose(q.pmf(highest + 1), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"scale": 0.0}, "`scale` must be positive and finite, got 0.0."),
        ({"scale": -1.0}, "`scale` must be positive and finite, got -1.0."),
        ({"loc": float("nan")}, "`loc` must be finite, got nan."),
        ({"lower_quantile": 0.9, "upper_quantile": 0.1}, "got 0.9 and 0.1"),
        ({"bounds": "both"}, "`bounds` must be one of real, integer, got 'both'."),
    ],
)
@pytest.mark.usefixtures("as_users_have_it")
def test_wrong_arguments_get_one_sentence(arguments, named):
    with pytest.raises(InvalidArgumentError) as error:
        NormalDepth(**arguments)
    assert named in str(error.value)


@pytest.mark.usefixtures("as_users_have_it")
def test_other_families_say_what_is_wrong_too():
    for build, message in [
        (lambda: PoissonDepth(-1.0), "`rate` must be positive and finite, got -1.0."),
        (lambda: PoissonDepth(1.0, 1.5), "`upper_quantile` must be above 0 and at most 1, got 1.5."),
        (lambda: FixedDepth(2.7), "`depth` must be a whole number of at least 0, got"),
        (lambda: FixedDepth(-1), "`depth` must be a whole number of at least 0, got"),
        (lambda: FixedDepth(10**6), "`depth` must be at most 1022, got"),
        (lambda: CategoricalDepth(-1), "`max_depth` must be a whole number of at least 0, got -1."),
    ]:
        with pytest.raises(InvalidArgumentError) as error:
            build()
        assert message in str(error.value)
