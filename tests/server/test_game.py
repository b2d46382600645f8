"""The engine of the game: its numbers are those of the library, and stopping changes no bit."""

import dataclasses

import jax
import numpy as np
import pytest

from leadline import FixedDepth, InvalidArgumentError, Watch, metrics, predict, train, uncertainty
from leadline.inference.predict import depth_masses
from leadline.inference.restarts import evaluation_keys
from leadline.server.game import CURVES, DETAILS, Detail, Game, grid
from leadline.server.play import packed
from leadline.server.rules import REACH, Rules
from tests.server.frames import unpacked

RULES = Rules(omega=6, points=96, width=6, epochs=120)
COARSE = Detail(12, 3)


def moved(game, epoch):
    while game.epoch < epoch:
        game.step(epoch - game.epoch)
    return game


@pytest.fixture(scope="module")
def game():
    """In the middle."""
    return moved(Game(RULES), 60)


def test_a_frame_says_what_the_library_says(game):
    frame, models = game.frame(COARSE), game.models
    draws = {"n_samples": 3, "key": evaluation_keys(models, RULES.seed)}
    at = grid(12)
    expected = predict(models, at, **draws)[0, :, 1].reshape(12, 12)
    np.testing.assert_allclose(frame.mixture, expected, atol=1e-6)
    parts = uncertainty(models, at, **draws)
    for name in ("noise", "weights", "depth"):
        np.testing.assert_allclose(frame.parts[name].ravel(), getattr(parts, name), atol=1e-6)
    x, y = RULES.problem.validation
    assert frame.accuracy == metrics.accuracy(predict(models, x, **draws)[0], y)
    fresh = uncertainty(models, x, **draws)
    assert frame.means == pytest.approx({name: getattr(fresh, name).mean() for name in frame.means}, abs=1e-6)
    q, n = depth_masses(models)[0], len(frame.depth_posterior)
    np.testing.assert_array_equal(frame.depth_posterior, q[:n])
    assert q[n:].sum() == 0
    prior = jax.tree.map(lambda a: a[0], models.depth_prior)
    np.testing.assert_allclose(frame.depth_prior, prior.pmf(n), atol=1e-6)


def test_a_plane_of_one_depth_is_what_that_depth_predicts(game):
    frame, models = game.frame(COARSE), game.models
    for depth, mass in enumerate(frame.depth_posterior):
        one = FixedDepth(depth)
        fixed = jax.tree.map(lambda a: np.asarray(a)[None], (one, one))
        alone = dataclasses.replace(models, depth_prior=fixed[0], depth_posterior=fixed[1])
        if mass == 0:
            np.testing.assert_array_equal(frame.by_depth[depth], 0.5)
            continue
        said = predict(alone, grid(12), n_samples=3, key=evaluation_keys(models, RULES.seed))
        np.testing.assert_allclose(frame.by_depth[depth].ravel(), said[0, :, 1], atol=1e-6)
    assert len(frame.by_depth) >= 5


def test_the_curves_are_the_history(game):
    history = train(RULES.problem, RULES.settings, watch=Watch()).history
    assert [row[0] for row in game.rows] == list(range(1, 61))
    for row in game.rows:
        for name, value in dict(zip(CURVES, row, strict=True)).items():
            if name != "epoch":
                assert value == history[name][int(row[0]) - 1, 0], name
    assert game.frame(COARSE).noted["epoch"] == 60


def test_pauses_steps_and_looks_change_no_bit():
    hasty, patient = moved(Game(RULES), 120), Game(RULES)
    while patient.epoch < patient.end:
        patient.step(7)
        patient.frame(COARSE)
    assert_same_bits(hasty.models, patient.models)
    straight = train(RULES.problem, RULES.settings)
    assert_same_bits(hasty.models, straight.model)
    hasty.step(5)
    assert hasty.epoch == 120
    hasty.begin(RULES)
    assert hasty.epoch == 0
    assert_same_bits(moved(hasty, 120).models, patient.models)


def assert_same_bits(a, b):
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_spiral_winds_under_way_and_the_weights_stay():
    game = moved(Game(RULES), 30)
    before, x = game.models, game.points[0].copy()
    other = dataclasses.replace(RULES, omega=9, own=((1.0, 1.0, 1),))
    game.change(other)
    assert_same_bits(game.models, before)
    assert (game.epoch, game.end, game.rules) == (30, 150, other)
    assert np.abs(game.points[0][:96] - x).max() > 0.1
    moved(game, 60)
    assert game.rows[-1][0] == 60
    with pytest.raises(AssertionError):
        assert_same_bits(game.models, before)
    again = Game(game.script[0][1])
    for epoch, rules in game.script[1:]:
        moved(again, epoch).change(rules)
    assert_same_bits(moved(again, 60).models, game.models)


def test_of_several_changes_at_one_epoch_the_last_is_in_the_script():
    game = moved(Game(RULES), 5)
    for omega in (7, 8, 9):
        game.change(dataclasses.replace(RULES, omega=omega))
    assert [(epoch, rules.omega) for epoch, rules in game.script] == [(0, 6), (5, 9)]


@pytest.mark.parametrize("name", ["depth", "recipe", "width", "seed", "start", "epochs"])
def test_another_network_has_to_begin_again(name):
    other = {"depth": 2, "recipe": "written", "width": 8, "seed": 2, "start": 3.0, "epochs": 500}[name]
    game = Game(RULES)
    with pytest.raises(InvalidArgumentError, match=f"`{name}` cannot change under way; begin again."):
        game.change(dataclasses.replace(RULES, **{name: other}))


@pytest.mark.parametrize("depth", ["normal", "poisson", "categorical", 0, 2])
def test_every_family_plays(depth):
    game = moved(Game(dataclasses.replace(RULES, depth=depth)), 3)
    frame = game.frame(COARSE)
    assert frame.depth_posterior.sum() == pytest.approx(1, abs=1e-5)
    if isinstance(depth, int):
        assert frame.depth_posterior[depth] == 1
        assert set(np.unique(frame.by_depth[4])) == {0.5}
    assert frame.by_depth.shape == (len(frame.depth_posterior), 12, 12)


def test_points_of_ones_own_alone_are_learned():
    """Two corners, two classes."""
    own = tuple((0.8 * s + 0.05 * i, 0.8 * s, int(s > 0)) for s in (-1, 1) for i in range(6))
    game = moved(Game(Rules(points=0, own=own, width=6, epochs=200)), 200)
    frame = game.frame(COARSE)
    assert frame.accuracy == 100
    assert frame.mixture[0, 0] < 0.4
    assert frame.mixture[-1, -1] > 0.6


def test_a_page_hears_what_is_new_to_it():
    game = moved(Game(RULES), 4)
    first = game.news(0, 0, 0)
    assert len(first["train"]) == 96
    assert first["known"] == 0
    n = len(first["rows"])
    moved(game, 6)
    second = game.news(first["story"], n, first["points"])
    assert (second["known"], "train" in second) == (n, False)
    assert first["rows"] + second["rows"] == game.rows
    game.begin(RULES)
    third = game.news(first["story"], n, first["points"])
    assert (third["known"], third["rows"], "train" in third) == (0, [], True)


def test_what_a_training_goes_back_from_is_cut_off():
    """As it tells followers who goes back: with epochs that they know already."""
    game = moved(Game(RULES), 20)
    story, rows = game.news(0, 0, 0)["story"], list(game.rows)
    bursts = []
    train(RULES.problem, dataclasses.replace(RULES.settings, epochs=9), watch=Watch(on_epoch=Keep(bursts)))
    for burst in bursts[1:]:
        game.burst(burst)
    assert game.news(story, len(rows), 0)["known"] == 0
    epochs = [row[0] for row in game.rows]
    assert epochs == sorted(set(epochs))
    assert epochs[-1] == 9


class Keep:
    def __init__(self, bursts):
        self._bursts = bursts

    def burst(self, burst):
        self._bursts.append(burst)


def test_the_plane_and_its_bytes(game):
    at = grid(4)
    assert np.abs(at).max() == pytest.approx(REACH * 0.75)
    assert at[0].tolist() == pytest.approx([-REACH * 0.75] * 2)
    assert at[1, 0] > at[0, 0]  # along the row first
    frame = game.frame(COARSE)
    said, planes = unpacked(packed(frame, game.news(0, 0, 0)))
    np.testing.assert_array_equal(planes["mixture"], np.rint(255 * frame.mixture))
    np.testing.assert_array_equal(planes["2"], np.rint(255 * frame.by_depth[2]))
    np.testing.assert_array_equal(planes["noise"], np.rint(255 * frame.parts["noise"] / np.log(2)))
    assert said["q"] == frame.depth_posterior.tolist()
    assert said["noted"] == frame.noted
    assert DETAILS["still"].grid > DETAILS["moving"].grid
