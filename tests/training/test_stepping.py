"""A training that is moved on piece by piece."""

import dataclasses
import signal

import jax
import numpy as np
import pytest

from leadline import (
    RECIPES,
    CategoricalLikelihood,
    InvalidArgumentError,
    PoissonDepth,
    Problem,
    Settings,
    Training,
    Watch,
    predict,
    train,
)
from leadline.datasets import spiral_parts

PARTS = spiral_parts(5, seed=0, n=96)
PROBLEM = Problem(PARTS["train"], PARTS["validation"], CategoricalLikelihood(2))
SMALL = Settings(recipe="written", width=4, batch_size=32, epochs=43)
# A prior far down and a fast q(L): layers are added within a few epochs.
DIVING = dataclasses.replace(
    SMALL,
    depth=(PoissonDepth(500.0), PoissonDepth(3.0, 0.95)),
    recipe=dataclasses.replace(
        RECIPES["written"], temperature=0.0, learning_rate=0.0005, depth_learning_rate=0.1, initial_scale=0.05
    ),
)


class Heard:
    """What followers hear, epoch by epoch; and whether they are let go."""

    def __init__(self):
        self.epochs, self.closed = [], 0

    def __call__(self, now):
        self.epochs.append((now.epoch, now.free_energy, now.depth_mean))

    def close(self):
        self.closed += 1


def assert_same_bits(a, b):
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("settings", [SMALL, dataclasses.replace(SMALL, recipe="leadline", n_restarts=2), DIVING])
def test_pieces_come_to_the_same_bits(settings):
    """However long they are, whatever is asked of the models in between, and while layers are added."""
    straight, heard, heard_in_pieces = train(PROBLEM, settings), Heard(), Heard()
    train(PROBLEM, settings, watch=Watch(on_epoch=heard))
    training = Training(PROBLEM, settings, watch=Watch(on_epoch=heard_in_pieces))
    assert (training.epoch, training.end) == (0, 43)
    done = 0
    for n_epochs in (1, 2, 11, 3, 16, 1):
        training.advance(n_epochs)
        done += n_epochs
        assert training.epoch == done
        n_runs = training.models.runs[0]
        said = predict(training.models, PARTS["test"][0], n_samples=2, key=jax.random.split(jax.random.key(0), n_runs))
        assert np.all(np.isfinite(said))
    assert heard_in_pieces.closed == 0
    end = training.finish()
    assert (training.epoch, end.epochs, end.interrupted, heard_in_pieces.closed) == (43, 43, False, 1)
    assert_same_bits(end.model, straight.model)
    assert_same_bits(dict(end.history), dict(straight.history))
    assert heard_in_pieces.epochs == heard.epochs


def test_the_models_in_between_are_those_of_a_training_that_ends_there():
    """Where the schedules do not depend on the end."""
    settings = dataclasses.replace(SMALL, recipe=dataclasses.replace(RECIPES["written"], keep="last"))
    training = Training(PROBLEM, settings)
    training.advance(20)
    assert_same_bits(training.models, train(PROBLEM, dataclasses.replace(settings, epochs=20)).model)


def test_it_ends_where_it_ends():
    training = Training(PROBLEM, dataclasses.replace(SMALL, epochs=7))
    training.advance(100)
    assert training.epoch == 7
    models = training.models
    training.advance(3)
    assert training.epoch == 7
    assert_same_bits(training.models, models)
    with pytest.raises(InvalidArgumentError, match="`n_epochs` must be a whole number of at least 1, got 0"):
        training.advance(0)


def test_a_follower_ends_a_piece():
    training = Training(PROBLEM, SMALL, watch=Watch(on_epoch=lambda now: now.epoch >= 5))
    training.advance(30)
    assert 5 <= training.epoch < 30


def test_ctrl_c_in_a_piece_keeps_what_was_trained():
    training = Training(PROBLEM, SMALL, watch=Watch(on_call=lambda state: signal.raise_signal(signal.SIGINT)))
    training.advance(30)
    assert 1 <= training.epoch < 30
    before = training.epoch
    training.advance(1)
    assert training.epoch == before + 1


def test_pieces_go_on_from_checkpoints(tmp_path):
    """And write them."""
    watch = Watch(checkpoint_dir=tmp_path, checkpoint_every=0)
    first = Training(PROBLEM, SMALL, watch=watch)
    first.advance(9)
    second = Training(PROBLEM, SMALL, watch=watch)
    assert second.epoch == 9
    assert_same_bits(second.finish().model, train(PROBLEM, SMALL).model)
