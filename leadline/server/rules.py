"""What can be chosen in a game: every setting once, with its bounds, its words and its check."""

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from leadline._checks import InvalidArgumentError, check_choice, check_integer, check_number
from leadline.datasets import spiral_parts
from leadline.depth import FAMILIES, Start
from leadline.inference.native import log_masses_of
from leadline.inference.recipes import IMAGE, RECIPES, Recipe
from leadline.likelihoods import CategoricalLikelihood
from leadline.training import Problem, Settings

REACH = 1.25
"""The plane of a game goes from minus this to this, both ways."""

MOST_POINTS, MOST_OWN = 2000, 200
DEEPEST_FIXED = 6

Own = tuple[tuple[float, float, int], ...]
"""Points and their classes."""


def choice(
    default: Any, label: str, help: str, *, under_way: bool = False, range: tuple[float, float, float] | None = None
) -> Any:
    """A field of `Rules`.

    Args:
        default: at first; None leaves it to the recipe.
        label, help: on the page.
        under_way: whether it can change while the network keeps its weights.
        range: the least, the most, and the step of its slider; of whole numbers, if these are.
    """
    return field(default=default, metadata={"label": label, "help": help, "under_way": under_way, "range": range})


@dataclass(frozen=True)
class Rules:
    """The settings of a game, checked."""

    omega: float = choice(
        15.0,
        "Rotation of the spiral, ω",
        "Its speed: at the rim it has turned by ω quarters of a circle. The larger, the harder.",
        under_way=True,
        range=(0, 30, 0.5),
    )
    noise: float = choice(
        0.0, "Wrong labels", "The share of points whose colour is flipped.", under_way=True, range=(0, 0.5, 0.01)
    )
    points: int = choice(
        1000, "Points", "Of the spiral; with points of your own, also none.", under_way=True, range=(0, MOST_POINTS, 50)
    )
    own: Own = choice((), "Your own points", "Click into the plane.", under_way=True)
    depth: str | int = choice("normal", "Family of q(L)", "What the posterior over the depth can be; or one depth.")
    recipe: str = choice("leadline", "Recipe", "How it is trained.")
    temperature: float | None = choice(
        None, "Temperature", "How much the weights' KL counts.", under_way=True, range=(0, 2, 0.05)
    )
    start: float | None = choice(None, "Start of q(L)", "Its location before the first step.", range=(0, 8, 0.5))
    width: int = choice(32, "Width", "Units of every layer.", range=(2, 128, 2))
    epochs: int = choice(
        1000, "Epochs", "Over which the weights' KL comes in, and the learning rate falls.", range=(100, 10_000, 100)
    )
    seed: int = choice(1, "Seed", "Of the points, the first weights and the noise.", range=(0, 9999, 1))

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if one.metadata["range"] is not None and not (value is None and one.default is None):
                self._check_range(one.name, value, *one.metadata["range"])
        check_choice("recipe", self.recipe, recipes())
        _check_own(self.own)
        if self.depth not in depths() or isinstance(self.depth, bool | float):
            known = f"{', '.join(FAMILIES)}, or a number of layers from 0 to {DEEPEST_FIXED}"
            raise InvalidArgumentError(f"must be one of {known}, got {self.depth!r}.", "depth")
        if self.start is not None and self.depth not in families_that_start():
            said = f"must be left out with a depth of {self.depth!r}, which has its own, got {self.start:g}"
            raise InvalidArgumentError(f"{said}.", "start")
        if self.points + len(self.own) < 2:
            said = f"must be at least 2 together with your own, got {self.points} and {len(self.own)}."
            raise InvalidArgumentError(said, "points")

    def _check_range(self, name: str, value: Any, least: float, most: float, step: float) -> None:
        if isinstance(step, int):
            check_integer(name, value, int(least), int(most))
        check_number(name, value)
        if not least <= value <= most:
            raise InvalidArgumentError(f"must lie between {least:g} and {most:g}, got {value}.", name)

    @classmethod
    def of(cls, given: Any) -> "Rules":
        """From what a page says, as JSON has it; what it does not say is as usual."""
        if not isinstance(given, dict):
            raise InvalidArgumentError(f"must be named values, got {given!r}.", "settings")
        known = {one.name: one for one in fields(cls)}
        for name in given:
            check_choice("settings", name, known)
        own = given.get("own", ())
        if isinstance(own, list) and all(isinstance(point, list) for point in own):
            given = given | {"own": tuple(tuple(point) for point in own)}
        return cls(**given)

    def to_json(self) -> dict[str, Any]:
        """As `of` takes it."""
        return asdict(self) | {"own": [list(point) for point in self.own]}

    @property
    def _recipe(self) -> Recipe:
        recipe = RECIPES[self.recipe]
        if self.start is None:
            return recipe
        return replace(recipe, name="play", initial_depth=(float(self.start), recipe.initial_depth[1]))

    @property
    def settings(self) -> Settings:
        """Of its training: one network."""
        own = {name: getattr(self, name) for name in ("depth", "temperature", "width", "epochs", "seed")}
        return Settings(recipe=self._recipe, n_restarts=1, **own)

    @property
    def problem(self) -> Problem:
        """The points to learn from, and as many fresh ones of the spiral; without a spiral, the same.

        Whatever changes, a point stays itself: the spiral winds as omega grows, and more noise flips more of the same.
        """
        parts = spiral_parts(self.omega, self.seed, n=MOST_POINTS)
        rng, rows = np.random.default_rng([self.seed, 1]), {}
        for part in ("train", "validation"):
            x, y = parts[part]
            flipped = rng.uniform(size=len(y)) < self.noise
            rows[part] = x[: self.points], np.where(flipped, 1 - y, y)[: self.points]
        own = np.array(self.own, float).reshape(-1, 3)
        x, y = rows["train"]
        train = np.concatenate([x, own[:, :2]]), np.concatenate([y, own[:, 2].astype(y.dtype)])
        return Problem(train, rows["validation"] if self.points else train, CategoricalLikelihood(2))

    def changes(self, other: "Rules") -> list[str]:
        """What `other` has otherwise, and cannot have under way."""
        return [
            one.name
            for one in fields(self)
            if getattr(self, one.name) != getattr(other, one.name) and not one.metadata["under_way"]
        ]


def _check_own(own: Any) -> None:
    for point in own if isinstance(own, tuple) else (own,):
        numbers = isinstance(point, tuple) and len(point) == 3
        numbers = numbers and all(isinstance(a, int | float) and not isinstance(a, bool) for a in point)
        if not numbers or not all(abs(a) <= REACH for a in point[:2]) or point[2] not in (0, 1):
            said = f"must be points (x, y, class) with x and y from {-REACH:g} to {REACH:g} and a class of 0 or 1"
            raise InvalidArgumentError(f"{said}, got {point!r}.", "own")
    if len(own) > MOST_OWN:
        raise InvalidArgumentError(f"must be at most {MOST_OWN} points, got {len(own)}.", "own")


def recipes() -> list[str]:
    """Those that train one network on points."""
    return [name for name, recipe in RECIPES.items() if not recipe.kinds and recipe is not IMAGE]


def depths() -> dict[str | int, str]:
    """What q(L) can be, and its words on a page."""
    families = {name: f"{one.label or name} distribution" for name, one in FAMILIES.items()}
    return {**families, **{depth: f"one depth, L = {depth}" for depth in range(DEEPEST_FIXED + 1)}}


def families_that_start() -> list[str]:
    """Families whose q(L) begins where one says."""
    firsts = {
        name: [log_masses_of(one.pair(Start(at, 1.0))[1], 64) for at in (0.5, 4.0)] for name, one in FAMILIES.items()
    }
    return [name for name, (near, far) in firsts.items() if not np.array_equal(near, far)]


def choices() -> dict[str, Any]:
    """All that a page needs to offer them, as JSON has it."""
    options = {"depth": list(depths().items()), "recipe": [(name, name) for name in recipes()]}
    of_recipes = {
        name: {"temperature": RECIPES[name].temperature, "start": RECIPES[name].initial_depth[0]} for name in recipes()
    }
    return {
        "fields": [
            {"name": one.name, "default": one.default, "options": options.get(one.name), **one.metadata}
            for one in fields(Rules)
        ],
        "recipes": of_recipes,
        "starting": families_that_start(),
        "reach": REACH,
        "most_own": MOST_OWN,
    }
