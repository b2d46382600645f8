"""Pictures and films of a game: what is drawn is what the frame says."""

import dataclasses
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from leadline.server.film import DARK, LIGHT, SIZE, Seen, drawn, film, seen
from leadline.server.game import Detail, Game
from leadline.server.rules import REACH, Rules

RULES = Rules(omega=4, points=60, width=4, epochs=100)


@pytest.fixture(scope="module")
def game():
    game = Game(RULES)
    while game.epoch < 20:
        game.step(20 - game.epoch)
    return game


def at(image, x, y):
    """The colour there, in the units of SIZE."""
    scale = image.size[0] / SIZE[0]
    return np.array(image.getpixel((round(scale * x), round(scale * y))), float)


def rgb(ink):
    return np.array([int(ink[i : i + 2], 16) for i in (1, 3, 5)], float)


@pytest.mark.parametrize("inks", [LIGHT, DARK])
def test_the_plane_has_the_colours_of_its_probabilities(game, inks):
    """Half of the class's colour where it is sure, paper where it is not; the lowest row at the bottom."""
    rows = np.linspace(0, 1, 32)
    frame = dataclasses.replace(game.frame(Detail(32, 2)), mixture=np.tile(rows[:, None], (1, 32)))
    image = drawn(Seen(frame, game.rules, game.points, game.rows), inks, 2)
    for share, p in ((0.02, 1.0), (0.98, 0.0), (0.3, 0.7)):
        x, y = 18 + 344 * 0.01, 42 + 344 * share  # beside all points
        toward = rgb(inks.one if p > 0.5 else inks.zero)
        expected = rgb(inks.paper) + 0.5 * abs(2 * p - 1) * (toward - rgb(inks.paper))
        np.testing.assert_allclose(at(image, x, y), expected, atol=6)


def test_the_bars_are_as_high_as_the_masses(game):
    frame = game.frame(Detail(16, 2))
    q = np.array([0.1, 0.65, 0.25, 0.0, 0.0])
    frame = dataclasses.replace(frame, depth_posterior=q, depth_prior=np.zeros(5), by_depth=frame.by_depth[:5])
    image = drawn(Seen(frame, game.rules, game.points, game.rows), LIGHT, 2)
    step = min(316 / 5, 62)
    for depth, mass in enumerate(q):
        column = [at(image, 386 + depth * step + (step - 5) / 2, y) for y in np.arange(40, 132, 0.5)]
        orange = sum(np.abs(colour - rgb(LIGHT.depth)).max() < 3 for colour in column) * 0.5
        assert orange == pytest.approx(88 * mass / 0.65, abs=2)


def test_ones_own_points_stand_out(game):
    own = ((-1.0, 1.0, 1), (1.0, -1.0, 0))
    with_own = Game(dataclasses.replace(RULES, own=own))
    image = drawn(seen(with_own, Detail(16, 2)), LIGHT, 2)
    for x, y, label in own:
        place = 18 + 344 * (x + REACH) / (2 * REACH), 42 + 344 * (REACH - y) / (2 * REACH)
        np.testing.assert_allclose(at(image, *place), rgb(LIGHT.one if label else LIGHT.zero), atol=3)


def test_a_film_plays_the_game_again(game):
    """Its last frame is the picture of the game, in the film's colours."""
    turned = dataclasses.replace(RULES, omega=8)
    script = [(0, RULES), (20, turned)]
    content = film(script, 30, n_frames=4)
    movie = Image.open(BytesIO(content))
    assert (movie.n_frames, movie.size, movie.info["loop"]) == (4, SIZE, 0)
    movie.seek(3)
    again = Game(RULES)
    for epoch, rules in ((20, turned), (30, None)):
        while again.epoch < epoch:
            again.step(epoch - again.epoch)
        if rules is not None:
            again.change(rules)
    expected = drawn(seen(again, Detail(64, 16)), LIGHT, 1, 9)
    difference = np.abs(np.asarray(movie.convert("RGB"), float) - np.asarray(expected, float)).max(axis=-1)
    assert np.mean(difference > 8) < 0.1  # the edges of lines and words have fewer shades
    assert film(script, 30, n_frames=4) == content
