"""The spiral against its definition."""

import numpy as np
import pytest

from leadline import InvalidArgumentError
from leadline.datasets import spiral, spiral_parts


def test_points_lie_on_the_spiral_up_to_the_noise():
    """Unwind every point: away from the centre its distance from the spiral is the noise, sd 0.02 in each direction."""
    x, y = spiral(50_000, 3.0, np.random.default_rng(0))
    radius = np.hypot(*x.T)
    far = radius > 0.3
    angle = 3.0 * radius * np.pi / 2
    side = np.where(y == 1, 1, -1)
    direction = side[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    # Near the arm the offset across it is Gaussian with sd 0.02 times the factor of the moving angle.
    across = (x[:, 0] * -direction[:, 1] + x[:, 1] * direction[:, 0])[far]
    expected = 0.02 * np.sqrt(1 + (3.0 * np.pi / 2 * radius[far]) ** 2)
    assert np.std(across / expected) == pytest.approx(1, rel=0.02)
    assert np.mean(y) == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(50_000))


def test_radius_is_the_root_of_a_uniform():
    x, _ = spiral(50_000, 0.0, np.random.default_rng(0))
    square = x[:, 0] ** 2 + x[:, 1] ** 2
    assert np.mean(square) == pytest.approx(0.5 + 2 * 0.02**2, abs=4 * np.sqrt(1 / 12 / 50_000))


def test_parts_are_independent_and_depend_on_the_seed():
    one, again, other = spiral_parts(10, 1), spiral_parts(10, 1), spiral_parts(10, 2)
    assert list(one) == ["train", "validation", "test"]
    assert all(x.shape == (1024, 2) and y.shape == (1024,) for x, y in one.values())
    np.testing.assert_array_equal(one["test"][0], again["test"][0])
    assert not np.any(one["train"][0] == one["test"][0])
    assert not np.any(one["train"][0] == other["train"][0])


@pytest.mark.parametrize(
    ("n", "omega", "message"),
    [
        (10, -1.0, "`omega` must be at least 0, got -1.0."),
        (10, float("nan"), "`omega` must be finite, got nan."),
        (0, 1.0, "`n` must be a whole number of at least 1, got 0."),
    ],
)
def test_wrong_arguments_get_one_sentence(n, omega, message):
    with pytest.raises(InvalidArgumentError) as error:
        spiral(n, omega, np.random.default_rng(0))
    assert str(error.value) == message
