"""Images in the estimators' door: what is learned, remembered and refused."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from leadline import DepthClassifier, DepthRegressor, InvalidArgumentError, load
from leadline.network.blocks import BLOCKS

RNG = np.random.default_rng(0)
DIGITS = load_digits()
SOME = np.flatnonzero(DIGITS.target < 3)[:240]
X, Y = DIGITS.images[SOME].astype(np.uint8), np.array(["zero", "one", "two"])[DIGITS.target[SOME]]
TRAIN, TEST = slice(0, 180), slice(180, 240)
SETTINGS = {"block": "convolution", "width": 8, "max_iter": 20, "random_state": 0, "batch_size": 32}


def brief(**changes):
    """A fit where nothing depends on what is learned."""
    return DepthClassifier(**SETTINGS | {"max_iter": 1, "early_stopping": False} | changes)


@pytest.fixture(scope="module")
def fitted():
    return DepthClassifier(**SETTINGS, crop=1).fit(X[TRAIN], Y[TRAIN])


def test_it_learns_digits_and_says_how_deep(fitted):
    assert fitted.score(X[TEST], Y[TEST]) > 0.9  # one in three is guessing
    assert fitted.image_shape_ == (8, 8, 1)
    assert fitted.depth_pmf_.sum() == pytest.approx(1)
    assert len(fitted.restart_shares_) == 1  # the recipe is that of images


def test_a_channel_is_standardised_at_all_its_places():
    colours = RNG.normal(size=(20, 4, 5, 3)) * [1, 10, 100] + [0, 5, -7]
    problem = brief().problem(colours, np.arange(20) % 2)
    assert problem.shape == (4, 5, 3)
    images = problem.train[0].reshape(20, 4, 5, 3)
    np.testing.assert_allclose(images.mean((0, 1, 2)), 0, atol=1e-12)
    np.testing.assert_allclose(images.std((0, 1, 2)), 1)


def test_three_axes_are_one_channel(fitted):
    with_axis = fitted.predict_proba(X[TEST][..., None])
    np.testing.assert_array_equal(with_axis, fitted.predict_proba(X[TEST]))
    np.testing.assert_array_equal(with_axis, fitted.predict_proba(X[TEST].tolist()))


def test_a_model_file_and_a_pickle_remember_the_shape(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    for again in (load(tmp_path / "model"), pickle.loads(pickle.dumps(fitted))):
        assert again.image_shape_ == (8, 8, 1)
        np.testing.assert_array_equal(again.predict_proba(X[TEST]), fitted.predict_proba(X[TEST]))
        with pytest.raises(InvalidArgumentError, match=r"`X` must be images \[rows, 8, 8, 1\], as .* shape \(5, 64\)"):
            again.predict(X[:5].reshape(5, 64))


def test_the_rest_of_an_estimator_takes_images(fitted):
    parts = fitted.uncertainty(X[TEST])
    assert np.all(parts.total <= np.log(3) + 1e-6)
    assert fitted.effective_width() == [[]]  # filters are not counted
    assert set(fitted.tell(X[TEST], Y[TEST])) >= {"nll", "depth"}
    assert len(fitted.hardest(X[TEST], Y[TEST], 3)) >= 3
    fitted.plot_depth()
    fitted.plot_history()
    for ask in (
        lambda: fitted.importance(X[TEST], Y[TEST]),
        lambda: fitted.partial_dependence(X[TEST], 0),
        lambda: fitted.plot_decision(X[TEST], Y[TEST]),
    ):
        with pytest.raises(InvalidArgumentError, match="`X` must have"):
            ask()


@pytest.mark.slow
def test_other_rows_may_decide_and_a_fit_may_go_on(fitted):
    again = brief(warm_start=True, early_stopping=True).fit(X[TRAIN], Y[TRAIN], eval_set=(X[TEST], Y[TEST]))
    again.fit(X[TRAIN], Y[TRAIN])
    assert again.n_iter_ == 1


@pytest.mark.slow
def test_numbers_of_images_are_learned():
    reg = DepthRegressor(**SETTINGS | {"max_iter": 1, "early_stopping": False}).fit(X[:40], X[:40].mean((1, 2)))
    assert reg.predict(X[40:50]).shape == (10,)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (X[:40].reshape(40, 64), r"`block` must be one that takes tables, as 'dense' does, got 'convolution', which"),
        (pd.DataFrame(X[:40].reshape(40, 64)), r"`block` must be one that takes tables"),
        (X[:40].reshape(40, 2, 4, 4, 2), r"`X` must be images \[rows, .*, got shape \(40, 2, 4, 4, 2\)."),
        (X[:40, :0], r"`X` must be images .*, got shape \(40, 0, 8\)."),
        (
            np.where(X[:40] == 0, np.nan, 1.0),
            r"`X` must hold finite numbers, got nan in image 0, 40 such images in all.",
        ),
        (X[:40].astype(str), r"`X` must be images of numbers, .*, got the type <U"),
        ([[[1, 2], [3]]] * 40, r"`X` must be images .*, got a ragged list."),
    ],
)
def test_what_is_no_images_is_one_sentence(given, message):
    with pytest.raises(InvalidArgumentError, match=f"^{message}"):
        brief().fit(given, np.arange(40) % 2)


def test_images_are_not_for_dense_layers():
    with pytest.raises(InvalidArgumentError, match=r"`X` must be a table .* images are for 'convolution' or"):
        brief(block="dense").fit(X[:40], Y[:40])


def test_others_must_be_alike(fitted):
    for other in (X[:5, :7], X[:5, :, :, None].repeat(3, axis=3), pd.DataFrame(X[:5].reshape(5, 64))):
        with pytest.raises(InvalidArgumentError, match=r"`X` must be images \[rows, 8, 8, 1\], as those that it was"):
            fitted.predict(other)


@pytest.mark.parametrize("name", ["crop", "flip"])
def test_a_table_is_not_moved(name):
    with pytest.raises(InvalidArgumentError, match=f"`{name}` must be"):
        brief(block="dense", **{name: True if name == "flip" else 1}).fit(np.eye(20), np.arange(20) % 2)


def test_every_block_for_images_has_a_name_in_the_sentence():
    assert {name for name, kind in BLOCKS.items() if kind.takes_images} == {"convolution", "residual-convolution"}
