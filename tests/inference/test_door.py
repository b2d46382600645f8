"""Parts of one's own are checked before anything is trained: every wrong one is one sentence."""

import re
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leadline import (
    CategoricalDepth,
    CategoricalLikelihood,
    DepthClassifier,
    DepthDistribution,
    FixedDepth,
    InvalidArgumentError,
    NormalDepth,
    NumberLikelihood,
    PoissonDepth,
    Problem,
    Settings,
    UnboundedNetwork,
    init_models,
    train,
)
from leadline.inference.door import check_likelihood, check_pair
from leadline.likelihoods.mixture import GaussianMixture
from leadline.network.blocks import Dense
from leadline.network.blocks.base import BLOCKS

pytestmark = pytest.mark.usefixtures("as_users_have_it")

HALF = jnp.array(0.5, float)
CLASSES = CategoricalLikelihood(2)


def normalised(log_masses):
    return log_masses - jax.nn.logsumexp(log_masses)


class Geometric(DepthDistribution):
    """As it should be: on 0 .. `top`."""

    logit: jax.Array
    top: int = eqx.field(static=True, default=5)

    def log_masses(self, n_depths):
        depth = jnp.arange(n_depths)
        return normalised(jnp.where(depth <= self.top, depth * jax.nn.log_sigmoid(self.logit), -jnp.inf))


class NotOne(Geometric):
    def log_masses(self, n_depths):
        return super().log_masses(n_depths) - 0.1


class NotANumber(Geometric):
    def log_masses(self, n_depths):
        depth = jnp.arange(n_depths)
        return jnp.where(depth <= self.top, super().log_masses(n_depths), jnp.nan)


class Gap(Geometric):
    def log_masses(self, n_depths):
        return normalised(jnp.where(jnp.arange(n_depths) == 2, -jnp.inf, super().log_masses(n_depths)))


class Nothing(Geometric):
    def log_masses(self, n_depths):
        return jnp.full(n_depths, -jnp.inf)


class Moody(Geometric):
    """Its masses depend on how many are asked for."""

    def log_masses(self, n_depths):
        depth = jnp.arange(n_depths)
        return normalised(jnp.where(depth <= 1, depth * jnp.log(1024 / n_depths), -jnp.inf))


class HeavyTail(Geometric):
    """Without an end, and what is beyond n_depths is shared out."""

    def log_masses(self, n_depths):
        return normalised(-self.logit * jnp.log1p(jnp.arange(n_depths)))


class Short(Geometric):
    def log_masses(self, n_depths):
        return super().log_masses(6)


class Whole(Geometric):
    def log_masses(self, n_depths):
        return jnp.where(jnp.arange(n_depths) == 0, 0, -1)


class Listed(Geometric):
    def log_masses(self, n_depths):
        return [-1.0, -0.5]


class Cusp(Geometric):
    """Its masses are numbers, and their slopes are not: what `jnp.where` leaves out has none."""

    def log_masses(self, n_depths):
        depth = jnp.arange(n_depths)
        root = jnp.sqrt(5.0 - depth + 0.0 * self.logit)
        return normalised(jnp.where(depth <= 5, self.logit * root, -jnp.inf))


POSTERIOR, PRIOR = "`depth`: {} posterior {}", "`depth`: {} prior {}"

WRONG = {
    "masses that do not sum to one": (
        NotOne(HALF),
        "`depth`: the masses of the posterior NotOne must sum to one over the depths below 1024, got 0.904837.",
    ),
    "NaN": (
        NotANumber(HALF),
        "`depth`: `log_masses(1024)` of the posterior NotANumber must have no NaN, got one for depth 6; outside the "
        "support it is -inf.",
    ),
    "a gap": (
        Gap(HALF),
        "`depth`: the posterior Gap must have mass at neighbouring depths, and has none at 2, between 0 and 5.",
    ),
    "no mass at all": (
        Nothing(HALF),
        "`depth`: the posterior Nothing must have mass at some depth below 1024, and has none.",
    ),
    "another answer for every n": (
        Moody(HALF),
        "`depth`: the posterior Moody must give the same masses however many are asked for, and ln P(L = 0) is "
        "-6.24028 of 2 and -0.693147 of 1024.",
    ),
    "too few masses": (
        Short(HALF),
        "`depth`: `log_masses(1024)` of the posterior Short must be 1024 floating-point numbers, got float32 of shape "
        "(6,).",
    ),
    "whole numbers": (
        Whole(HALF),
        "`depth`: `log_masses(1024)` of the posterior Whole must be 1024 floating-point numbers, got int32 of shape "
        "(1024,).",
    ),
    "a list": (
        Listed(HALF),
        "`depth`: `log_masses(1024)` of the posterior Listed must be 1024 floating-point numbers, got a list.",
    ),
    "a number of Python's": (
        Geometric(0.5),
        "`depth` must be made of arrays, and `logit` of the posterior Geometric is 0.5, which would not be learned; "
        "make it one, as `jnp.asarray(0.5, float)`, or a static field, with `equinox.field(static=True)`.",
    ),
    "a truth value": (
        Geometric(jnp.array(True)),
        "`depth` must be made of arrays of float32, float64, int32, int64, and `logit` of the posterior Geometric is "
        "bool.",
    ),
    "a gradient that is NaN": (
        Cusp(HALF),
        "`depth`: the gradient of the posterior Cusp in `logit` must be finite, got nan; where `jnp.where` leaves a "
        "value out, what it leaves out needs a finite gradient, too.",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_family_is_one_sentence(wrong):
    posterior, message = WRONG[wrong]
    with pytest.raises(InvalidArgumentError) as error:
        Settings(depth=(NormalDepth(), posterior)).resolved(CLASSES)
    assert str(error.value) == message


def test_a_prior_that_shares_out_its_tail_contradicts_itself():
    with pytest.raises(InvalidArgumentError, match="the prior HeavyTail must give the same masses"):
        check_pair(HeavyTail(jnp.array(2.0)), Geometric(HALF))


@pytest.mark.parametrize(
    ("prior", "posterior", "sentence"),
    [
        (
            Geometric(HALF, top=3),
            Geometric(HALF),
            "the prior Geometric must have mass wherever the posterior Geometric has, and has none at depth 4.",
        ),
        (FixedDepth(2), FixedDepth(3), "has none at depth 3."),
        (
            CategoricalDepth(10),
            NormalDepth(1.0, 1.0, 0.025, 0.975),
            "the prior CategoricalDepth must have mass wherever the posterior NormalDepth can go, and has none at "
            "depth 11; take a prior that goes on, or a posterior that ends where it does.",
        ),
        (Geometric(HALF, top=60), PoissonDepth(1.0, 0.95), "has none at depth 61; take"),
        (NormalDepth(), PoissonDepth(1.0), "the support of the posterior PoissonDepth must end; cut it with"),
        (NormalDepth(), "normal", "the posterior must be a depth distribution, got 'normal'"),
    ],
    ids=["other ends", "other depths", "a window that moves", "a rate that grows", "no end", "no family"],
)
def test_a_pair_must_have_a_finite_free_energy_wherever_training_takes_it(prior, posterior, sentence):
    with pytest.raises(InvalidArgumentError, match=re.escape(sentence)):
        check_pair(prior, posterior)


class Thaws(Geometric):
    """What it gives as unfrozen, training cannot put in its place."""

    thawed: Callable = eqx.field(static=True, default=lambda: None)

    def unfrozen(self):
        return self.thawed()


@pytest.mark.parametrize(
    ("thawed", "got"),
    [(lambda: 3, "got 3."), (lambda: None, "got None."), (lambda: Geometric(HALF), "got Geometric(")],
    ids=["a number", "nothing", "another family"],
)
def test_what_a_posterior_unfreezes_to_is_of_its_own_form(thawed, got):
    must = "`depth`: `unfrozen()` of the posterior Thaws must give one of the same family and form, " + got
    with pytest.raises(InvalidArgumentError, match=re.escape(must)):
        Settings(depth=(NormalDepth(), Thaws(HALF, thawed=thawed)), recipe="leadline").resolved(CLASSES)


def test_what_is_right_passes():
    for prior, posterior in [
        (NormalDepth(), Geometric(HALF)),
        (Geometric(HALF, top=9), Geometric(HALF)),
        (CategoricalDepth(10), CategoricalDepth(10)),
        (CategoricalDepth(10), FixedDepth(10)),
        (PoissonDepth(0.5), NormalDepth(1.0, 1.0, 0.025, 0.975)),
        (NormalDepth(), Geometric(np.array(0.5, np.float32), top=130)),
    ]:
        check_pair(prior, posterior)
        Settings(depth=(prior, posterior)).resolved(CLASSES)


def test_it_is_refused_by_whatever_takes_it():
    x = np.random.default_rng(0).normal(size=(30, 2))
    y = (x[:, 0] > 0).astype(int)
    pair = (NormalDepth(), Gap(HALF))
    for use in (
        lambda: train(Problem((x, y), (x, y), CLASSES), Settings(depth=pair, epochs=1)),
        lambda: DepthClassifier(depth=pair, max_iter=1).fit(x, y),
        lambda: init_models(2, CLASSES, depth=pair, key=jax.random.split(jax.random.key(0), 1)),
    ):
        with pytest.raises(InvalidArgumentError, match="the posterior Gap must have mass at neighbouring depths"):
            use()


# Likelihoods


class Laplace(NumberLikelihood):
    """As it should be."""

    mixture: ClassVar = GaussianMixture
    log_scale: jax.Array = eqx.field(default_factory=lambda: jnp.array(0.0, float))

    n_targets: ClassVar[int] = 1
    n_outputs: ClassVar[int] = 1
    least_scale: ClassVar[float] = 0.1

    def mean_and_scale(self, output):
        return output, jnp.full_like(output, jnp.sqrt(2.0))

    def log_prob(self, output, y):
        distance = jnp.abs(y - output) / jnp.exp(self.log_scale)
        return jnp.sum(-distance - self.log_scale - jnp.log(2.0), axis=-1)


class PerTarget(Laplace):
    mixture = Laplace.mixture

    def log_prob(self, output, y):
        return -jnp.abs(y - output)


class Total(Laplace):
    mixture = Laplace.mixture

    def log_prob(self, output, y):
        return jnp.sum(super().log_prob(output, y))


class LogOfOutput(Laplace):
    mixture = Laplace.mixture

    def log_prob(self, output, y):
        return -jnp.abs(jnp.log(output) - y)[..., 0]


@pytest.mark.parametrize(
    ("likelihood", "message"),
    [
        (PerTarget(), r"`likelihood` must give a number for every row, and `log_prob` of PerTarget gives the shape "),
        (
            Total(),
            r"`likelihood` must give a number for every row, and `log_prob` of Total gives the shape \(\) ",
        ),
        (
            LogOfOutput(),
            r"`likelihood` must give a finite number for every target that its `check_targets` lets pass, and "
            r"`log_prob` of LogOfOutput is nan for the target \[.*\] at the output \[-.*\]\.",
        ),
        (Laplace(0.0), "`likelihood` must be made of arrays, and `log_scale` of Laplace is 0.0, which would not be"),
    ],
    ids=["a number per target", "one number", "NaN", "a number of Python's"],
)
def test_a_wrong_likelihood_is_one_sentence(likelihood, message):
    x = np.random.default_rng(0).normal(size=(30, 2))
    problem = Problem((x, x[:, :1]), (x, x[:, :1]), likelihood)
    with pytest.raises(InvalidArgumentError, match=f"^{message}"):
        train(problem, Settings(depth=1, epochs=1, width=4, n_restarts=1))


def test_a_right_likelihood_passes():
    check_likelihood(Laplace(), np.random.default_rng(0).normal(size=(30, 1)))


# Blocks


class Growing(Dense):
    def step(self, state, *, key, draw):
        further = super().step(state[: self.sizes[0]], key=key, draw=draw)
        return jnp.concatenate([further, state])

    def read(self, state, *, key, draw):
        return super().read(state[: self.sizes[1]], key=key, draw=draw)


class Forgetful(Dense):
    def step(self, state, *, key, draw):
        return super().step(state, key=key, draw=draw)[:-1]


class Wide(Dense):
    def read(self, state, *, key, draw):
        return jnp.concatenate([super().read(state, key=key, draw=draw)] * 2, axis=1)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (
            Growing,
            "`block` must leave its state in one shape, and the steps of Growing make [(7, 3)] and then [(11, 3)] of 3 "
            "rows.",
        ),
        (
            Forgetful,
            "`block` must take two steps and be read after each, and Forgetful does not, for 3 inputs, a width of 4 "
            "and 1 outputs: InvalidArgumentError: `x` must have 4 rows, and a column per data point, got shape (3, 3).",
        ),
        (
            Wide,
            "`block` must put out 1 numbers for each of 3 rows, and `read` of Wide gives the shapes [(3, 2), (3, 2)].",
        ),
    ],
)
def test_a_wrong_block_is_one_sentence(block, message, monkeypatch):
    monkeypatch.setitem(BLOCKS.data, "strange", block)
    with pytest.raises(InvalidArgumentError) as error:
        UnboundedNetwork(3, 1, width=4, block="strange", key=jax.random.key(0))
    assert str(error.value) == message


def test_no_kernel_computes_what_a_subclass_does_otherwise():
    """On a GPU it would take `step` for that of the class which it knows."""
    assert Dense.has_kernel
    assert not Wide.has_kernel
