"""The settings of a game: what they make, and what is refused."""

import json

import numpy as np
import pytest

from leadline import InvalidArgumentError
from leadline.datasets import spiral_parts
from leadline.depth import FAMILIES
from leadline.server.rules import MOST_OWN, REACH, Rules, choices


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"omega": 31}, "`omega` must lie between 0 and 30, got 31."),
        ({"omega": None}, "`omega` must be a number, got None."),
        ({"omega": float("nan")}, "`omega` must lie between 0 and 30, got nan."),
        ({"noise": "much"}, "`noise` must be a number, got 'much'."),
        ({"points": 100.5}, "`points` must be a whole number of at least 0, got 100.5."),
        ({"points": 10**9}, "`points` must be at most 2000, got 1000000000."),
        ({"points": 0}, "`points` must be at least 2 together with your own, got 0 and 0."),
        ({"points": 0, "own": [[0, 0, 1]]}, "`points` must be at least 2 together with your own, got 0 and 1."),
        ({"own": [[0, 0]]}, "`own` must be points (x, y, class) with x and y from -1.25 to 1.25"),
        ({"own": [[0, 9, 1]]}, "and a class of 0 or 1, got (0, 9, 1)."),
        ({"own": [[0, 0, 2]]}, "and a class of 0 or 1, got (0, 0, 2)."),
        ({"own": "all"}, "and a class of 0 or 1, got 'all'."),
        ({"own": [[0, 0, 1]] * (MOST_OWN + 1)}, "`own` must be at most 200 points, got 201."),
        ({"depth": "gamma"}, f"`depth` must be one of {', '.join(FAMILIES)}, or a number of layers from 0 to 6"),
        ({"depth": 7}, "from 0 to 6, got 7."),
        ({"depth": True}, "from 0 to 6, got True."),
        ({"recipe": "table"}, "`recipe` must be one of leadline, published, written, got 'table'."),
        ({"temperature": -1}, "`temperature` must lie between 0 and 2, got -1."),
        ({"start": 99}, "`start` must lie between 0 and 8, got 99."),
        ({"depth": "poisson", "start": 3}, "`start` must be left out with a depth of 'poisson', which has its own"),
        ({"depth": 3, "start": 3}, "`start` must be left out with a depth of 3, which has its own, got 3."),
        ({"width": 1}, "`width` must be a whole number of at least 2, got 1."),
        ({"epochs": 99999}, "`epochs` must be at most 10000, got 99999."),
        ({"seed": "one"}, "`seed` must be a whole number of at least 0, got 'one'."),
        ({"sigma": 1}, "`settings` must be one of omega, noise, points, own, depth, recipe"),
        ([1], "`settings` must be named values, got [1]."),
    ],
)
def test_what_is_wrong_is_one_sentence(given, said):
    with pytest.raises(InvalidArgumentError) as error:
        Rules.of(given)
    assert said in str(error.value)
    assert str(error.value).count("`") >= 2
    assert "\n" not in str(error.value)


def test_rules_survive_json():
    rules = Rules(omega=3.5, own=((0.1, -0.2, 1), (1.25, 0, 0)), depth=2, temperature=0.5, seed=7)
    assert Rules.of(json.loads(json.dumps(rules.to_json()))) == rules
    assert Rules.of({}) == Rules()


def test_the_points_are_the_papers_spiral_and_ones_own():
    rules = Rules(omega=7, points=50, seed=3, own=((0.5, 0.25, 1),))
    (x, y), (fresh, of_fresh) = rules.problem.train, rules.problem.validation
    expected = spiral_parts(7, 3, n=2000)
    np.testing.assert_array_equal(x[:50], expected["train"][0][:50])
    np.testing.assert_array_equal(y[:50], expected["train"][1][:50])
    np.testing.assert_array_equal(x[50:], [[0.5, 0.25]])
    assert y[50:].tolist() == [1]
    np.testing.assert_array_equal(fresh, expected["validation"][0][:50])
    np.testing.assert_array_equal(of_fresh, expected["validation"][1][:50])
    own = Rules(points=0, own=((0.5, 0.25, 1), (0, 0, 0))).problem
    assert own.validation is own.train


def test_a_point_stays_itself_whatever_changes():
    """As the spiral winds, it keeps its distance from the middle; more points leave the first ones where they are; and
    more noise flips more of the same."""
    some, more = Rules(omega=5, points=40).problem.train, Rules(omega=5, points=80).problem.train
    np.testing.assert_array_equal(more[0][:40], some[0])
    wound = Rules(omega=6, points=40).problem.train
    np.testing.assert_array_equal(wound[1], some[1])
    far = [np.linalg.norm(x, axis=1) for x, _ in (some, wound)]
    assert np.abs(far[0] - far[1]).max() < 0.2  # four deviations of the points from their line, in both
    labels = [Rules(points=2000, noise=noise).problem.train[1] for noise in (0, 0.1, 0.4)]
    flipped = [labels[0] != other for other in labels]
    assert flipped[0].sum() == 0
    assert np.all(flipped[2][flipped[1]])
    for share, which in zip((0.1, 0.4), flipped[1:], strict=True):
        assert abs(which.mean() - share) < 4 * np.sqrt(share * (1 - share) / 2000)


def test_the_recipe_decides_what_is_left_to_it():
    assert Rules().settings.resolved(Rules().problem.likelihood).temperature == 0.15
    started = Rules(start=4).settings.recipe
    assert started.initial_depth == (4.0, 1.0)


def test_the_page_is_offered_what_is_taken():
    """Every value that a control can have, at its ends."""
    offered = json.loads(json.dumps(choices()))
    assert {one["name"] for one in offered["fields"]} == set(Rules().to_json())
    for one in offered["fields"]:
        values = [value for value, _ in one["options"]] if one["options"] else one["range"][:2] if one["range"] else []
        for value in values:
            own = [[REACH, REACH, 0], [-REACH, 0, 1]] if value == 0 else []
            assert Rules.of({one["name"]: value, "own": own}).to_json()[one["name"]] == value
    assert {"normal", "com-poisson"} <= set(offered["starting"]) <= set(FAMILIES) - {"poisson", "categorical"}
