"""Small differences, far tails, and the scan of dynamic length."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from leadline.backend.device import Backend, pretending
from leadline.backend.loops import bounded_scan, dynamic_scan, masked_scan, put_row, row, update_rows
from leadline.backend.numerics import bucket, log_ndtr, log_sub_exp, softplus_inverse
from tests.jaxprs import equations
from tests.tolerances import CLOSED_FORM, GRADIENT


def test_log_ndtr_and_its_slope_agree_with_fifty_digits(precision):
    z = np.concatenate([np.linspace(-30, 5, 71), [-5000.0, -300.0, -100.0]])

    def log_phi(x):
        return mpmath.log(mpmath.erfc(-mpmath.mpf(x) / mpmath.sqrt(2)) / 2)

    with mpmath.workdps(50):
        expected = [float(log_phi(x)) for x in z]
        slope = [float(mpmath.exp(-(mpmath.mpf(x) ** 2) / 2 - log_phi(x)) / mpmath.sqrt(2 * mpmath.pi)) for x in z]
    tolerance = CLOSED_FORM[precision]
    np.testing.assert_allclose(log_ndtr(jnp.asarray(z)), expected, rtol=tolerance, atol=tolerance)
    slopes = jax.vmap(jax.grad(lambda x: log_ndtr(x)))(jnp.asarray(z))
    np.testing.assert_allclose(slopes, slope, rtol=GRADIENT, atol=tolerance)


def test_log_sub_exp(precision):
    a, b = jnp.array([0.0, -1.0, -500.0, 2.0, -jnp.inf]), jnp.array([-1e-4, -3.0, -503.0, 2.0, -jnp.inf])
    expected = [
        np.log(-np.expm1(-1e-4)),
        -1 + np.log1p(-np.exp(-2.0)),
        -500 + np.log1p(-np.exp(-3.0)),
        -np.inf,
        -np.inf,
    ]
    np.testing.assert_allclose(log_sub_exp(a, b), expected, rtol=1e-3 if precision == "float32" else 1e-8)
    assert np.all(np.isfinite(jax.grad(lambda a: jnp.where(a > b, log_sub_exp(a, b), 0.0).sum())(a)))


def test_softplus_inverse(precision):
    y = jnp.array([1e-3, 0.05, 1.0, 30.0])
    np.testing.assert_allclose(jax.nn.softplus(softplus_inverse(y)), y, rtol=CLOSED_FORM[precision])


@pytest.mark.parametrize("n", [1, 7, 8, 100, 1023, 1024, 1025, 50_000])
def test_buckets_waste_at_most_a_quarter(n):
    assert n <= bucket(n) <= max(32, n * 5 / 4)
    assert bucket(bucket(n)) == bucket(n)


def _body(i, fixed, params, carry, x):
    carry = jnp.tanh(carry * params["a"] + x["w"] + fixed) + 0.1 * i
    return carry, {"y": carry * x["w"], "z": (carry**2).sum()}


def _plain(fixed, params, carry, xs, length):
    n = xs["w"].shape[0]
    ys = []
    for i in range(length):
        carry, y = _body(i, fixed, params, carry, jax.tree.map(lambda a, i=i: a[i], xs))
        ys.append(y)
    ys += [jax.tree.map(jnp.zeros_like, ys[0])] * (n - length)
    return carry, jax.tree.map(lambda *rows: jnp.stack(rows), *ys)


def _scalar(scan, length):
    def loss(params, carry, xs):
        carry, ys = scan(jnp.array([0.3, 0.1]), params, carry, xs, length)
        return carry.sum() + (ys["y"] ** 2).sum() + 0.5 * ys["z"].sum()

    return loss


@pytest.mark.parametrize("scan", [dynamic_scan, masked_scan])
@pytest.mark.parametrize("length", [1, 3, 5])
def test_bounded_scan_is_a_loop_with_its_gradients(length, scan):
    """The walk that a CPU takes, and the one that an accelerator takes."""
    args = ({"a": jnp.array(0.7)}, jnp.array([0.5, -0.2]), {"w": jax.random.normal(jax.random.key(0), (5, 2))})
    bounded = jax.jit(jax.value_and_grad(_scalar(lambda *a: scan(_body, *a), jnp.array(length)), (0, 1, 2)))
    plain = jax.value_and_grad(_scalar(_plain, length), (0, 1, 2))
    for got, expected in zip(jax.tree.leaves(bounded(*args)), jax.tree.leaves(plain(*args)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=CLOSED_FORM["float32"], atol=1e-6)


@pytest.mark.parametrize("dynamic", [True, False])
def test_rows_are_updated_alike_on_all_devices(dynamic):

    def double(i, given, old):
        return jnp.where(i < 2, 2 * given + old, old)

    with pretending(Backend("cpu" if dynamic else "gpu")):
        updated = jax.jit(lambda n: update_rows(double, jnp.arange(4.0), jnp.ones(4), n))(jnp.array(2))
    np.testing.assert_array_equal(updated, [1.0, 3.0, 1.0, 1.0])


def test_bounded_scan_stays_one_loop_under_vmap():
    """With one length for all runs, the loop's condition must not become an array over the runs."""

    def gradient(carry, xs, length):
        return jax.grad(_scalar(lambda *a: bounded_scan(_body, *a), length), 1)({"a": jnp.array(0.7)}, carry, xs)

    batched = jax.make_jaxpr(jax.vmap(gradient, (0, 0, None)))(jnp.ones((4, 2)), {"w": jnp.ones((4, 5, 2))}, 3)
    loops = [eqn for eqn in equations(batched.jaxpr) if eqn.primitive.name == "while"]
    assert len(loops) == 2
    for loop in loops:
        assert loop.params["cond_jaxpr"].jaxpr.outvars[0].aval.shape == ()
    assert not [eqn for eqn in equations(batched.jaxpr) if eqn.primitive.name in ("gather", "scatter")]


@pytest.mark.parametrize("axes", [(0, 0, None), (0, 0, 0), (None, 0, None), (0, None, 0), (None, None, 0)])
def test_rows_are_read_and_put_under_vmap(axes):
    stack, value, i = jnp.arange(24.0).reshape(3, 4, 2), jnp.ones((3, 2)), jnp.array([2, 0, 3])
    stack, value, i = (a if axis == 0 else a[0] for a, axis in zip((stack, value, i), axes, strict=True))
    read = jax.vmap(row, axes[::2])(stack, i) if {*axes[::2]} != {None} else row(stack, i)
    put = jax.vmap(put_row, axes)(stack, value, i)
    for k in range(3):
        one, new, j = (a[k] if axis == 0 else a for a, axis in zip((stack, value, i), axes, strict=True))
        np.testing.assert_array_equal(read[k] if {*axes[::2]} != {None} else read, one[j])
        np.testing.assert_array_equal(put[k], one.at[j].set(new))
