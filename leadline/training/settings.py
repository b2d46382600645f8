"""How networks are trained: every option once, with its default, its check, its help and its names."""

import inspect
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, cast, get_args

import numpy as np

from leadline._checks import InvalidArgumentError, check_at_least, check_choice, check_flag, check_integer
from leadline._identity import identity
from leadline.backend.numerics import Precision
from leadline.depth import FAMILIES
from leadline.inference.recipes import RECIPES, Depth, Recipe, check_depth, check_temperature, get_recipe
from leadline.likelihoods import Likelihood
from leadline.network.blocks import BLOCKS
from leadline.training.problem import Problem

Door = Literal["estimator", "command line"]


def option(
    default: Any,
    help: str,
    *,
    argument: str = "",
    flag: str = "",
    type: Any = None,
    doors: tuple[Door, ...] = get_args(Door),
) -> Any:
    """A field of `Settings`.

    Args:
        default: if nothing is said.
        help: one sentence for estimators and command line.
        argument: its name there, if another, as scikit-learn has it.
        flag: its name on the command line, if another.
        type: on the command line, if another than text.
        doors: where it can be said.
    """
    said = {"help": help, "argument": argument, "flag": flag, "type": type, "doors": doors}
    return field(default=default, metadata=said)


@dataclass(frozen=True)
class Settings:
    """How a network is trained. None leaves a choice to the recipe (`resolved`).

    Args:
        {options}

    Examples:
        >>> from leadline import CategoricalLikelihood, Settings
        >>> settings = Settings(depth="poisson", width=16).resolved(CategoricalLikelihood(2))
        >>> settings.n_restarts, settings.epochs, settings.batch_size
        (4, 5000, 256)
    """

    depth: Depth = option(
        "normal",
        f"Family of q(L): {', '.join(FAMILIES.own())}, or one that is registered; a fixed number of hidden layers; in "
        "Python also a pair of depth distributions (prior, initial posterior).",
    )
    block: str = option("dense", f"What a layer is: {', '.join(BLOCKS.own())}, or one that is registered.")
    width: int = option(32, "Units per hidden layer.", type=int)
    recipe: str | Recipe = option(
        "leadline",
        "leadline, table (restarts of several kinds, weighed by training rows held out; for tables), image (for blocks "
        "that take images), published (the code behind the paper's figures) or written (the paper's text); in Python "
        "also a `Recipe`.",
    )
    temperature: float | Literal["auto"] | None = option(
        None,
        "Factor on the weight KL, or auto: the rows held out decide, which restarts of several kinds (recipe table) do "
        "by themselves. Default: the recipe's.",
    )
    n_restarts: int | None = option(
        None, "Networks trained side by side and averaged. Default: the recipe's.", flag="restarts", type=int
    )
    epochs: int | None = option(
        None,
        "Passes of each network over the rows, at most. Default: the recipe's, and 62,500 steps (50,000 for a fixed "
        "depth) where the validation likelihood decides.",
        argument="max_iter",
        type=int,
    )
    learning_rate: float | None = option(
        None, "Of the weights, at the start. Default: the recipe's.", argument="learning_rate_init", type=float
    )
    batch_size: int | Literal["auto"] | None = option("auto", "Rows per step. auto: the recipe's.")
    precision: Precision = option(
        "float32",
        "Of the factors of matrix products in training: float32, or bfloat16, for wide layers on a GPU. Sums, KL and "
        "predictions stay in single precision.",
    )
    crop: int = option(
        0,
        "Pixels by which images are moved at random, up or down and left or right, each time that they are seen.",
        doors=("estimator",),
    )
    flip: bool = option(False, "Whether images are mirrored left to right at random.", doors=("estimator",))
    own_length: bool = option(False, "Whether the validation likelihood decides the number of epochs.", doors=())
    seed: int = option(
        1,
        "Decides the data that are drawn or kept apart, the initial weights and the noise.",
        type=int,
        doors=("command line",),
    )

    def resolved(self, likelihood: Likelihood | type[Likelihood]) -> "Settings":
        """The settings for such targets, checked, with nothing left to the recipe.

        (But for `epochs` where the data decide: then it is for training to say how long that may take.)

        Args:
            likelihood: of the targets.

        Returns:
            Settings in which nothing is None.
        """
        recipe = get_recipe(self.recipe).suited(likelihood)
        automatic = self.batch_size is None or (isinstance(self.batch_size, str) and self.batch_size == "auto")
        full = replace(
            self,
            recipe=recipe,
            depth=int(self.depth) if isinstance(self.depth, np.integer) else self.depth,
            temperature=_temperature(recipe) if self.temperature is None else self.temperature,
            n_restarts=recipe.n_restarts if self.n_restarts is None else self.n_restarts,
            epochs=recipe.epochs if self.epochs is None and not self.own_length else self.epochs,
            learning_rate=recipe.learning_rate if self.learning_rate is None else self.learning_rate,
            batch_size=recipe.batch_size if automatic else self.batch_size,
        )
        for name in ("n_restarts", "width", "batch_size"):
            check_integer(name, getattr(full, name), 1)
        if full.epochs is not None:
            check_integer("epochs", full.epochs, 1)
        check_integer("seed", self.seed, 0)
        check_at_least("learning_rate", cast("float", full.learning_rate), 0)
        check_choice("block", self.block, BLOCKS)
        check_choice("precision", self.precision, get_args(Precision))
        check_integer("crop", self.crop, 0)
        check_flag("flip", self.flip)
        check_depth(self.depth, recipe)
        [*_, warmest] = check_temperature(full.temperature)
        return full if full.temperature == "auto" else replace(full, temperature=warmest)

    def temperatures(self) -> np.ndarray:
        """Of resolved settings: to train the restarts at, [choices, restarts]; the kinds have theirs side by side."""
        recipe, n_restarts = get_recipe(self.recipe), self.n_restarts or 1
        if recipe.kinds and self.temperature == "auto":
            return np.array([[one.temperature for one in recipe.by_restart(n_restarts)]])
        return np.repeat(np.array(check_temperature(self.temperature))[:, None], n_restarts, axis=1)

    def identity(self, problem: Problem) -> str:
        """The one name of such a training: the same for the same rows and settings, whoever asks.

        Args:
            problem: what is learned.
        """
        named = FAMILIES.get(self.depth) if isinstance(self.depth, str) else None, BLOCKS.get(self.block)
        return identity(problem.rows, problem.likelihood, [getattr(self, one.name) for one in fields(self)], named)

    def in_words(self) -> dict[str, Any]:
        """Under the record's names, as JSON has it."""
        recipe = get_recipe(self.recipe).name
        names = (
            *("block", "width", "temperature", "n_restarts", "epochs", "learning_rate", "batch_size", "precision"),
            "seed",
        )
        depth = self.depth if isinstance(self.depth, str | int) else repr(self.depth)
        moved = {name: value for name in ("crop", "flip") if (value := getattr(self, name))}
        return {"recipe": recipe, **{name: getattr(self, name) for name in names}, **moved, "depth": depth}


if Settings.__doc__:  # there are none with `python -OO`
    _HELP = (f"{one.name}: {one.metadata['help']}" for one in fields(Settings))
    Settings.__doc__ = inspect.cleandoc(Settings.__doc__).replace("{options}", "\n    ".join(_HELP))


def _temperature(recipe: Recipe) -> float | Literal["auto"]:
    return "auto" if recipe.kinds else recipe.temperature


def options(door: Door) -> dict[str, Any]:
    """The fields of `Settings` that can be said at a door, by their names there."""
    names = {"estimator": "argument", "command line": "flag"}
    return {one.metadata[names[door]] or one.name: one for one in fields(Settings) if door in one.metadata["doors"]}


def names_at(door: Door) -> dict[str, str]:
    """What options are called at a door that are called otherwise here."""
    return {one.name: name for name, one in options(door).items() if name != one.name}


def check_own_name(recipe: str | Recipe, likelihood: Likelihood) -> None:
    """Refuse a changed recipe that a record would give for the one that it was."""
    recipe = get_recipe(recipe).suited(likelihood)
    if recipe.name in RECIPES and recipe != RECIPES[recipe.name].suited(likelihood):
        raise InvalidArgumentError(f"`recipe`: a changed recipe needs a name of its own, got {recipe.name!r}.")
