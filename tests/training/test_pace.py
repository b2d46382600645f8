"""How long training takes: on made-up validation curves, and once for real."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline import RECIPES, CategoricalLikelihood, InvalidArgumentError, evaluate_free_energy
from leadline.inference.restarts import keys_of, restart_keys
from leadline.training import loop
from leadline.training.data import held_out, n_held_out
from leadline.training.pace import FLAT_STEPS, MIN_LOOKS, MIN_STEPS, SCHEDULED, FixedLength, OwnLength, Paces
from tests.tolerances import CLOSED_FORM, MANY_SUMS, TRAJECTORY
from tests.training.test_training import assert_same_bits
from tests.training_of import train_on

GUESSING = np.log(2)


def paced(curve, most=100_000, steps_per_epoch=1):
    """The pace after all of its looks at a validation NLL by epoch."""
    pace = OwnLength(most, steps_per_epoch, GUESSING)
    looks = []
    while pace.end is None:
        looks.append(pace.next_look)
        pace.look(np.asarray(curve(np.arange(pace.next_look)), float))
    assert looks == sorted(set(looks))  # always onwards
    assert pace.next_look == pace.end
    return pace


def share_at(clock, epoch):
    return float(clock.at(jnp.array(epoch, float)))


def first_phase(curve, **settings):
    return int(paced(curve, **settings).clock.start)


def test_an_early_minimum_and_then_a_rise_end_the_first_phase_at_the_first_look():
    overfit = lambda t: 0.2 + 0.4 * np.exp(-t / 10) + 0.002 * np.maximum(t - 40, 0)  # noqa: E731
    assert first_phase(overfit) == MIN_STEPS
    # Also near guessing: a network that gets worse than at first does not start slowly.
    assert first_phase(lambda t: GUESSING * (0.99 + 0.001 * np.maximum(t - 40, 0))) == MIN_STEPS
    # Where an epoch has many steps, looks are counted: at least some, and until half of them came after the minimum.
    rising = lambda t: 0.2 + 0.01 * t  # noqa: E731
    assert first_phase(rising, steps_per_epoch=1000) == MIN_LOOKS
    assert 70 <= first_phase(overfit, steps_per_epoch=1000) <= 100


def test_a_slowly_improving_curve_goes_on_until_there_is_no_time_left():
    assert first_phase(lambda t: 0.4 * np.exp(-t / 2000), most=3000) == 1000
    assert first_phase(lambda t: 0.4 * np.exp(-t / 2000), most=9000) == 3000


@pytest.mark.parametrize("until", [200, 400, 1600])
def test_a_curve_that_stops_improving_is_left_when_half_of_the_time_was_in_vain(until):
    """The means over a fifth of the way see the last of the fall at 5/4 of its end: that is half of 5/2."""
    fall = lambda t: 0.6 - 0.4 * np.minimum(t / until, 1)  # noqa: E731
    assert 2 * until <= first_phase(fall) <= 2.5 * until + 50  # epochs from look to look


@pytest.mark.parametrize("steps_per_epoch", [1, 4, 7])
def test_little_better_than_guessing_is_a_slow_start(steps_per_epoch):
    steps = steps_per_epoch * first_phase(lambda t: np.full(t.shape, 0.95 * GUESSING), steps_per_epoch=steps_per_epoch)
    assert FLAT_STEPS <= steps <= FLAT_STEPS + 60  # a look takes five times ten steps or so
    # The same curve at half of that is flat where the network has learned something.
    steps = steps_per_epoch * first_phase(lambda t: np.full(t.shape, 0.5 * GUESSING), steps_per_epoch=steps_per_epoch)
    assert MIN_STEPS <= steps < MIN_STEPS + steps_per_epoch


@given(
    most=st.integers(3, 3000),
    steps_per_epoch=st.integers(1, 40),
    seed=st.integers(0, 10**6),
    size=st.floats(0, 1),
)
def test_whatever_the_curve_the_schedules_have_their_time_and_the_end_is_not_beyond_the_most(
    most, steps_per_epoch, seed, size
):
    walk = 0.5 + size * np.cumsum(np.random.default_rng(seed).standard_normal(most)) / np.sqrt(most)
    pace = paced(lambda t: walk[t], most, steps_per_epoch)
    first = int(pace.clock.start)
    assert pace.end == int(pace.clock.end) <= most
    assert pace.end == (1 + SCHEDULED) * first or (pace.end == most and first == int(most / (1 + SCHEDULED)))


@pytest.mark.parametrize("most", [3, 10, 11, 50])
def test_a_curve_that_falls_to_the_end_has_the_most_epochs(most):
    assert paced(lambda t: np.exp(-t / most), most).end == most


@pytest.mark.parametrize("most", [1, 2])
def test_the_end_is_not_beyond_the_most_where_that_is_hardly_anything(most):
    assert paced(lambda t: np.ones(t.shape), most).end <= most


def test_the_clock_stands_at_first_and_then_runs_from_0_to_1():
    pace = OwnLength(900, 1, GUESSING)
    assert [share_at(pace.clock, epoch) for epoch in (0, 1, 899.5)] == [0, 0, 0]
    assert int(pace.clock.end) == 900  # good until the last epoch there may be
    pace.look(np.full(150, 0.1))
    assert pace.end == 450
    shares = [share_at(pace.clock, epoch) for epoch in (150, 225, 300, 450)]
    np.testing.assert_allclose(shares, [0, 0.25, 0.5, 1], rtol=CLOSED_FORM["float32"])
    before = pace.clock
    pace.look(np.full(300, 0.1))  # what is decided stays
    assert pace.clock is before


def test_a_fixed_length_has_one_clock_for_all_of_it():
    pace = FixedLength(40, 3)
    pace.look(np.zeros(10))
    assert (pace.end, pace.next_look, pace.validate_every) == (40, 40, 3)
    np.testing.assert_allclose([share_at(pace.clock, epoch) for epoch in (0, 10, 40)], [0, 0.25, 1])


def test_several_paces_are_each_as_if_alone():
    """Two seeds of two runs, the first of which has learned early; the second's curve falls for 400 epochs."""
    curves = [lambda t: np.full(t.shape, 0.1), lambda t: 0.6 - 0.4 * np.minimum(t / 400, 1)]
    alone = [paced(curve) for curve in curves]
    together = Paces([OwnLength(100_000, 1, GUESSING) for _ in curves], 2)
    while together.end is None:
        epochs = np.arange(together.next_look)
        nll = np.stack([curve(epochs) + side for curve in curves for side in (-0.01, 0.01)], axis=1)
        together.look(nll)
    assert alone[0].end < alone[1].end
    assert together.end == together.next_look == alone[1].end
    for name in ("start", "length", "end"):
        own = [getattr(pace.clock, name) for pace in alone]
        np.testing.assert_array_equal(getattr(together.clock, name), np.repeat(own, 2))


@pytest.mark.parametrize("recipe", ["leadline", pytest.param("written", marks=pytest.mark.slow)])
def test_a_seed_is_trained_as_long_beside_others_as_alone(recipe):
    """Its validation part decides for it; when it is done, it waits for the others as it is."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 60, 2))
    y = np.stack([rng.integers(2, size=60), x[1, :, 0] > 0]).astype(int)  # nothing to learn, and something
    settings = {"likelihood": CategoricalLikelihood(2), "width": 4, "n_restarts": 2, "own_length": True, "epochs": 1500}
    settings["recipe"] = recipe
    together = train_on((list(x), list(y)), 0.2, seeds=[1, 2], **settings)
    alone = [train_on((x[i], y[i]), 0.2, seeds=[1 + i], **settings) for i in range(2)]
    assert together.epochs == max(one.epochs for one in alone) > min(one.epochs for one in alone)
    for i, one in enumerate(alone):
        n = one.epochs
        np.testing.assert_allclose(
            together.history["depth_mean"][:n, 2 * i : 2 * i + 2], one.history["depth_mean"], atol=TRAJECTORY
        )
        # What is kept: the last model, or that of the lowest validation free energy.
        kept, own = (result.model.network.first.head.bias_mean for result in (together, one))
        np.testing.assert_allclose(kept[2 * i : 2 * i + 2], own, atol=TRAJECTORY)
        still = together.history["depth_mean"][n - 1 :, 2 * i : 2 * i + 2]
        np.testing.assert_array_equal(still, np.broadcast_to(still[:1], still.shape))


@pytest.mark.parametrize(
    ("depth", "apart", "most"),
    [
        (1, None, [12, 12]),
        ("normal", None, [18, 18]),
        pytest.param([1, "normal"], None, [12, 18], marks=pytest.mark.slow),
        ([1, "normal"], 2.0, [12, 18]),
    ],
)
def test_a_depth_that_is_learned_may_take_more_steps(depth, apart, most, monkeypatch):
    """60 rows, 12 of them held out: three steps per epoch; and no seed depends on the others."""
    monkeypatch.setattr(loop, "MOST_STEPS", {"fixed": 36, "learned": 54})
    rng = np.random.default_rng(0)
    data = ((rng.normal(size=(60, 2)), rng.integers(2, size=60)), 0.2, CategoricalLikelihood(2))
    recipe = dataclasses.replace(RECIPES["leadline"], deepest_start=apart)
    given = {"width": 4, "n_restarts": 2, "batch_size": 16, "own_length": True, "seeds": [1, 2]}
    assert train_on(*data, depth=depth, recipe=recipe, **given).epochs_of_fits == most


@pytest.mark.parametrize(("n_rows", "share", "n"), [(100, 0.1, 10), (7, 0.1, 1), (33, 0.2, 7), (12, 0.25, 3)])
def test_parts_are_held_out_without_a_row_in_common(n_rows, share, n):
    for labels in (None, np.arange(n_rows) % 3):
        parts = held_out(np.arange(n_rows * 1.0)[:, None], labels, 4, share, seed=5)
        assert parts.shape == (4, n)
        assert n == n_held_out(n_rows, share)
        assert len(np.unique(parts)) == 4 * n
        assert parts.min() >= 0
        assert parts.max() < n_rows


def test_where_the_rows_do_not_last_they_come_round_again():
    parts = held_out(np.arange(5.0)[:, None], None, 6, 0.4, seed=0)
    assert parts.shape == (6, 2)
    assert all(len(set(part)) == 2 for part in parts.tolist())
    counts = np.bincount(parts.ravel(), minlength=5)
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("seed", range(10))
def test_the_classes_are_in_proportion_in_every_part(seed):
    """A cut of the line leaves less than one row of either class too many or too few, and a part has two cuts.

    At random, 20 of 100 would have a deviation of 4.
    """
    labels = np.random.default_rng(99).permutation(np.arange(1000) % 5 == 0).astype(int)
    rare = labels[held_out(np.arange(1000.0)[:, None], labels, 10, 0.1, seed)].sum(axis=1)
    assert rare.sum() == 200
    assert np.all(np.abs(rare - 20) < 2)


def test_the_same_seed_holds_out_the_same_rows_and_another_does_not():
    labels = np.arange(60) % 2
    one, again, other = (held_out(np.arange(60.0)[:, None], labels, 2, 0.2, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert np.any(np.sort(one) != np.sort(other))


RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = (X[:, 0] + X[:, 1] ** 2 + 0.5 * RNG.standard_normal(60) > 0.7).astype(int)
WEIGHT = RNG.integers(1, 4, 60)


@pytest.fixture(scope="module")
def run():
    def run(seed):
        return train_on(
            (X, Y),
            0.1,
            CategoricalLikelihood(2),
            weight=WEIGHT,
            width=8,
            n_restarts=2,
            epochs=5000,
            own_length=True,
            temperature=1.0,
            seeds=[seed],
        )

    return run


@pytest.fixture(scope="module")
def training(run):
    return run(3)


def test_training_ends_when_the_weight_kl_is_in(training):
    """The same looks at the noted validation NLL give the same end, and there the clock says 1."""
    nll = training.history["validation_nll"].mean(axis=1)
    assert nll.shape == (training.epochs,)
    guessing = CategoricalLikelihood(2).nll_of_guessing(Y, np.ones(len(Y)))
    pace = OwnLength(5000, 1, guessing)
    while pace.end is None:
        pace.look(nll[: pace.next_look])
    assert training.epochs == pace.end
    assert not training.interrupted
    assert share_at(pace.clock, training.epochs) == 1
    assert float(RECIPES["leadline"].kl_factor(jnp.array(1.0))) == 1
    # And the network felt it: what grew without the weight KL has shrunk.
    weight_kl, first = training.history["weight_kl"].mean(axis=1), int(pace.clock.start)
    assert weight_kl[first] > weight_kl[0]
    assert weight_kl[-1] < 0.7 * weight_kl[first]


def test_restarts_hold_out_other_rows_in_proportion(training):
    rows = training.validation_rows
    assert rows.shape == (2, 6)
    assert len(np.unique(rows)) == 12
    assert np.all(np.abs(Y[rows].sum(axis=1) - 6 * Y.mean()) < 2)


def test_the_same_seed_gives_the_same_bits_at_its_own_length(run, training):
    again, other = run(3), run(4)
    assert again.epochs == training.epochs
    assert_same_bits(again.model, training.model)
    for name, column in training.history.items():
        np.testing.assert_array_equal(again.history[name], column)
    np.testing.assert_array_equal(again.validation_rows, training.validation_rows)
    assert np.any(other.validation_rows != training.validation_rows)
    assert np.any(other.model.network.first.layer.weight_mean != training.model.network.first.layer.weight_mean)


def test_a_row_of_weight_three_costs_as_much_as_three_rows(training):
    """Every weight sample is one for all rows, so that copies of a row cost the same."""
    x, y, weight = X[:25], Y[:25], WEIGHT[:25]
    key = keys_of(restart_keys(3, 2))
    merged = evaluate_free_energy(training.model, x, y, weight=weight, key=key)
    copied = evaluate_free_energy(training.model, np.repeat(x, weight, axis=0), np.repeat(y, weight), key=key)
    plain = evaluate_free_energy(training.model, x, y, key=key)
    np.testing.assert_allclose(merged.expected_nll, copied.expected_nll, rtol=MANY_SUMS)
    np.testing.assert_array_equal(merged.weight_kl, copied.weight_kl)
    assert np.all(merged.expected_nll > 1.2 * plain.expected_nll)


@pytest.mark.parametrize("weight", [np.zeros(60), -np.ones(60), np.full(60, np.nan), np.full(60, np.inf)])
def test_weights_must_be_positive(weight):
    with pytest.raises(InvalidArgumentError, match="`weight` must be positive and finite, got"):
        train_on((X, Y), 0.2, CategoricalLikelihood(2), weight=weight, own_length=True, epochs=3, seeds=[0])


@pytest.mark.parametrize("share", [0.999, 1.0])
def test_a_validation_share_must_leave_rows(share):
    with pytest.raises(InvalidArgumentError, match=f"`validation` must leave rows to train on, got {share} of 60 rows"):
        train_on((X, Y), share, CategoricalLikelihood(2), own_length=True, epochs=3, seeds=[0])
