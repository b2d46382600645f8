"""Training recipes by name: ours, and the two that hide behind the paper (its text and its published code)."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from leadline import _checks
from leadline._checks import InvalidArgumentError
from leadline._registry import is_own
from leadline.depth import FAMILIES, DepthDistribution, FixedDepth, Pair, Start
from leadline.depth.base import Bounds
from leadline.inference.door import check_pair, check_unfrozen
from leadline.likelihoods import Likelihood
from leadline.network.layers import Draw, InitialMeans, Prior

MOST_SAMPLES = 10_000
"""Weight samples behind a prediction: of a number all are held in memory, whoever wrote the recipe."""

Keep = Literal["lowest_free_energy", "last"]

ADAM = optax.scale_by_adam()
"""Kingma & Ba (2015) with their constants; the learning rate is multiplied on, because it may change."""


class Kind(NamedTuple):
    """What the restarts of one kind have in common, and others have otherwise."""

    temperature: float
    start: float
    """loc of q(L)."""
    noise: Literal["input", "constant"] = "input"
    """Of numbers, where the rows are to say whether it depends on the input."""


def _compiled(**options: Any) -> Any:
    """A field that decides the compiled program; the others are data to it, or do not reach it."""
    return field(metadata={"compiled": True}, **options)


@dataclass(frozen=True)
class Recipe:
    """How a network is trained. Every ingredient is one field and can be changed alone: `dataclasses.replace(recipe,
    warm_up=0.5)`. `docs/recipes.md` explains each, and what it gives. A subclass may define `kl_factor` and
    `rate_factor` otherwise, and add fields; it is then JAX that trains, and not the engine.

    Examples:
        >>> from dataclasses import replace
        >>> from leadline import RECIPES, Settings
        >>> patient = replace(RECIPES["leadline"], name="patient", epochs=20_000, warm_up=0.5)
        >>> Settings(recipe=patient).recipe.name
        'patient'
    """

    name: str
    """What records call it; a changed recipe needs one of its own."""
    temperature: float
    """Factor on the weight KL in the objective: 1 is the free energy, 0 leaves the weight KL out."""
    draw: Draw = _compiled()
    """Local reparameterisation, or one weight sample per layer and batch."""
    bounds: Bounds = _compiled()
    """Whether the quantile window of a normal q(L) has real or integer edges."""
    keep: Keep = _compiled()
    """Which model training returns: the one of the lowest validation free energy, or the last iterate."""
    initial_depth: tuple[float, float] = (0.0, 1.8)
    """loc and scale of a normal q(L) at the start."""
    deepest_start: float | None = None
    """loc at the start of the last restart; those between lie evenly between. None starts all of them alike."""
    kinds: tuple[Kind, ...] = ()
    """What the restarts are, in turn, with temperatures and starts of their own instead of the recipe's; none: all are
    alike. Every kind is trained several times, each time without another part of the rows, and the rows held out say
    how much to believe each kind."""
    weigh_depths: bool = False
    """Whether they also say how much to believe each depth of a kind. q(L) is then made anew after the training."""
    soften: bool = False
    """Whether a validation part with rows of its own says how sure restarts that are all alike may be of a class. What
    is said of numbers, and by restarts of several kinds, is always calibrated."""
    unfreeze: bool = _compiled(default=False)
    """Whether q(L) is kept from putting all its mass on one depth, where it would stay for ever."""
    initial_scale: float = 1.0
    """Standard deviation of the weights' posterior at the start."""
    initial_means: InitialMeans = "glorot"
    """Spread of the weights' posterior means at the start."""
    prior: Prior = "fixed"
    """Whether the scale of the weights' prior is fixed, or learned per unit or per weight."""
    prior_scale: float = 1.0
    """Standard deviation of the weights' prior (where it is learned per unit: at the start)."""
    warm_up: float = _compiled(default=0.0)
    """Share of the training over which the weight KL comes in."""
    warm_up_power: float = _compiled(default=1.0)
    """How it comes in: its factor is temperature (t / warm_up)^power at the share t of the training."""
    decay_from: float = _compiled(default=1.0)
    """Share of the training from which the weights' learning rate falls to 0, along half a cosine."""
    learning_rate: float = 0.005
    """Adam's rate for the weights."""
    depth_learning_rate: float = 0.0005
    """Adam's rate for the parameters of q(L)."""
    batch_size: int = 256
    """Rows per step."""
    n_restarts: int = 1
    """Networks trained side by side on the same data, whose predictions are averaged."""
    epochs: int = 20_000
    """Passes over the data that each of them gets, unless told otherwise."""
    n_samples: int = 100
    """Weight samples behind a prediction (eq. 10), all restarts together."""
    optimiser: optax.GradientTransformation | None = _compiled(default=None)
    """Turns gradients into directions, one for every layer and head: any of optax's transformations that has no rate of
    its own, as `optax.scale_by_lion(b1=0.95)` or a chain of such. None: Adam. The learning rates are multiplied on."""
    schedule: Callable[[Float[Array, "*shape"]], Float[Array, "*shape"]] | None = _compiled(default=None)
    """What is left of the weights' learning rate at a share of the training, 0 to 1: one of optax's schedules over one
    step, as `optax.cosine_decay_schedule(1.0, 1)`, or a function. None: half a cosine from `decay_from` on."""

    def __post_init__(self) -> None:
        choices = {"draw": Draw, "bounds": Bounds, "keep": Keep, "initial_means": InitialMeans, "prior": Prior}
        for name, allowed in choices.items():
            _checks.check_choice(name, getattr(self, name), get_args(allowed))
        for name in ("temperature", "learning_rate", "depth_learning_rate"):
            _checks.check_at_least(name, getattr(self, name), 0)
        for name in ("warm_up", "decay_from"):
            _checks.check_share(name, getattr(self, name))
        for name in ("initial_scale", "prior_scale", "warm_up_power"):
            _checks.check_positive(name, getattr(self, name))
        if not (isinstance(self.initial_depth, tuple) and len(self.initial_depth) == 2):
            raise InvalidArgumentError(f"`initial_depth` must be a pair (loc, scale), got {self.initial_depth!r}.")
        _checks.check_finite("loc of initial_depth", self.initial_depth[0])
        _checks.check_positive("scale of initial_depth", self.initial_depth[1])
        if self.deepest_start is not None:
            _checks.check_finite("deepest_start", self.deepest_start)
        if not all(2 <= len(kind) <= 3 for kind in self.kinds):
            raise InvalidArgumentError(
                f"must hold (temperature, start) or (temperature, start, noise), got {self.kinds}.", "kinds"
            )
        object.__setattr__(self, "kinds", tuple(Kind(*kind) for kind in self.kinds))
        if self.kinds and self.deepest_start is not None:
            raise InvalidArgumentError(
                "must be None where there are kinds, which have their own starts.", "deepest_start"
            )
        if self.weigh_depths and not self.kinds:
            raise InvalidArgumentError(
                "must be False where there are no kinds, which hold out rows together.", "weigh_depths"
            )
        for kind in self.kinds:
            _checks.check_at_least("temperature of kinds", kind.temperature, 0)
            _checks.check_finite("start of kinds", kind.start)
            _checks.check_choice("noise of kinds", kind.noise, get_args(Kind.__annotations__["noise"]))
        for name in ("batch_size", "n_restarts", "epochs", "n_samples"):
            most = {"n_samples": MOST_SAMPLES}.get(name, _checks.LARGEST_INTEGER)
            _checks.check_integer(name, getattr(self, name), 1, most)
        if self.optimiser is not None:
            _check_optimiser(self.optimiser)
        if self.schedule is not None and not callable(self.schedule):
            must = "must be a function of the share of the training, as optax.cosine_decay_schedule(1.0, 1) is"
            raise InvalidArgumentError(f"{must}, got {self.schedule!r}.", "schedule")
        if self.schedule is not None:
            _check_factor("`schedule`", self.schedule)
        if type(self) is not Recipe:
            for name in ("kl_factor", "rate_factor"):
                _check_factor(f"`{name}` of {type(self).__name__}", getattr(self, name))

    @property
    def directions(self) -> optax.GradientTransformation:
        """The optimiser."""
        return ADAM if self.optimiser is None else self.optimiser

    def kl_factor(self, share: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """How much of the temperature the weight KL has at a share of the training: min(1, share / warm_up)^power.

        Args:
            share: of the training that is done, 0 to 1.
        """
        if self.warm_up == 0:
            return jnp.ones_like(share)
        return jnp.clip(share / self.warm_up, 0, 1) ** self.warm_up_power

    def rate_factor(self, share: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """What is left of the learning rate: 1 until `decay_from`, then half a cosine down to 0; or the schedule.

        Args:
            share: of the training that is done, 0 to 1.
        """
        if self.schedule is not None:
            return self.schedule(share)
        if self.decay_from == 1:
            return jnp.ones_like(share)
        decayed = jnp.clip((share - self.decay_from) / (1 - self.decay_from), 0, 1)
        return 0.5 * (1 + jnp.cos(jnp.pi * decayed))

    def by_restart(self, n_restarts: int) -> "list[Recipe]":
        """What each restart is trained by, where they differ; else the one recipe of all.

        Args:
            n_restarts: how many there are.
        """
        loc, scale = self.initial_depth
        if self.kinds:
            each = [self.kinds[i % len(self.kinds)] for i in range(n_restarts)]
            return [replace(self, temperature=one.temperature, initial_depth=(one.start, scale)) for one in each]
        if self.deepest_start is None:
            return [self]
        return [
            replace(self, initial_depth=(float(at), scale)) for at in np.linspace(loc, self.deepest_start, n_restarts)
        ]

    def compiled(self) -> "Recipe":
        """The part of the recipe that the compiled epochs depend on; recipes alike in it share one program. What a
        subclass does may depend on all of it."""
        if type(self) is not Recipe:
            return self
        kept = {one.name: getattr(self, one.name) for one in fields(self) if one.metadata.get("compiled")}
        return Recipe("", temperature=float(self.temperature > 0), **kept)

    def suited(self, likelihood: "Likelihood | type[Likelihood]") -> "Recipe":
        """The recipe for such targets: with the likelihood's own changes, but for what its user has changed.

        Args:
            likelihood: of the targets.
        """
        changes = likelihood.recipe_changes.get(self.name, {})
        untouched = [name for name in changes if getattr(self, name) == getattr(RECIPES.get(self.name, self), name)]
        return replace(self, **{name: changes[name] for name in untouched})


@lru_cache(64)
def _check_optimiser(optimiser: optax.GradientTransformation) -> None:
    """A whole optimiser, with its rate and its minus, would go uphill here: a recipe has a rate and a minus itself."""
    way_out = "take one that turns gradients into directions, as optax.scale_by_lion() does"
    if not isinstance(optimiser, optax.GradientTransformation):
        raise InvalidArgumentError(
            f"must be one of optax's transformations, got {optimiser!r}; {way_out}.", "optimiser"
        )
    with jax.ensure_compile_time_eval():
        at, slope = jnp.zeros(2), jnp.ones(2)
        try:
            direction, _ = optimiser.update(slope, optimiser.init(at), at)
        except TypeError as error:  # of those that look at the objective, too
            has = "must need gradients and parameters alone, and this one says"
            raise InvalidArgumentError(f"{has} {str(error)!r}; {way_out}.", "optimiser") from None
    if np.any(np.asarray(direction) < 0):
        has = "must have no learning rate of its own, and this one goes downhill by itself"
        raise InvalidArgumentError(
            f"{has}; {way_out}, and give the rate as `learning_rate` and what becomes of it as `schedule`.", "optimiser"
        )


def _check_factor(called: str, factor: Callable[[Any], Any]) -> None:
    """Of a schedule of one's own, or of the subclass of a recipe: NaN would end the training at its first step."""
    with jax.ensure_compile_time_eval():
        for share in (0.0, 0.5, 1.0):
            given = np.asarray(factor(jnp.asarray(share, float)))
            if given.shape != () or not np.isfinite(given) or given < 0:
                must = "must give a finite number of at least 0 for the share of the training that is done, and gives"
                raise InvalidArgumentError(f"{called} {must} {given} at {share}.")


PUBLISHED = Recipe("published", temperature=0.0, draw="weights", bounds="integer", keep="last")
"""The code behind Figure 2: the weight KL is computed and left out, and the last iterate is evaluated."""

WRITTEN = Recipe("written", temperature=1.0, draw="local", bounds="real", keep="lowest_free_energy")
"""The paper's text: the full free energy, local reparameterisation, the model of the lowest validation free energy."""

LEADLINE = Recipe(
    "leadline",
    temperature=0.15,
    draw="local",
    bounds="real",
    keep="last",
    initial_depth=(1.0, 1.0),
    soften=True,
    unfreeze=True,
    initial_scale=0.05,
    initial_means="he",
    prior="unit",
    warm_up=0.9,
    warm_up_power=2.0,
    decay_from=0.5,
    learning_rate=0.005,
    depth_learning_rate=0.002,
    n_restarts=4,
    epochs=5_000,
)
"""The default: accurate and calibrated. The same number of epochs in all as the paper's one network."""

TABLE = replace(
    LEADLINE,
    name="table",
    kinds=(Kind(1.0, 0.5), Kind(0.05, 0.5), Kind(1.0, 2.5)),
    initial_depth=(0.5, 0.4),
    initial_scale=0.2,
    depth_learning_rate=0.0005,
    n_restarts=12,
)
"""What the estimators take: cold and warm networks, shallow and deep ones, four of each, and the rows decide. Chosen on
the choosing half of the tables of docs/tables.md."""

IMAGE = replace(
    LEADLINE,
    name="image",
    temperature=0.05,
    initial_scale=0.02,
    learning_rate=0.002,
    batch_size=128,
    n_restarts=1,
    epochs=60,
    n_samples=32,
)
"""What estimators and studies take for blocks of images: one network, whose filters have hundreds of inputs each and
start with less noise."""

RECIPES = {recipe.name: recipe for recipe in (LEADLINE, TABLE, IMAGE, PUBLISHED, WRITTEN)}
"""The recipes by their names.

Examples:
    >>> from leadline import RECIPES
    >>> RECIPES["published"].temperature, RECIPES["written"].temperature
    (0.0, 1.0)
"""

TEMPERATURES = (0.05, 0.15, 0.4, 1.0)
"""What `temperature="auto"` chooses from."""

Depth = str | int | np.integer | Pair
"""How a user says which p(L) and q(L) to take."""


def get_recipe(recipe: str | Recipe) -> Recipe:
    if isinstance(recipe, Recipe):
        return recipe
    _checks.check_choice("recipe", recipe, RECIPES)
    return RECIPES[recipe]


def check_temperature(temperature: Any) -> tuple[float, ...]:
    """The temperatures to train at."""
    if isinstance(temperature, str) and temperature == "auto":
        return TEMPERATURES
    if isinstance(temperature, bool) or not isinstance(temperature, int | float | np.number) or not temperature >= 0:
        raise InvalidArgumentError(f'must be a number of at least 0 or "auto", got {temperature!r}.', "temperature")
    _checks.check_finite("temperature", temperature)
    return (float(temperature),)


def depth_distributions(depth: Depth, recipe: Recipe) -> Pair:
    """p(L) and the initial q(L).

    Those of a family by its name, one depth for a whole number, or a pair of distributions (prior, initial posterior).
    A recipe that unfreezes q(L) does so from the start.
    """
    match depth:
        case (DepthDistribution() as prior, DepthDistribution() as posterior):
            pass
        case str() if depth in FAMILIES:
            prior, posterior = FAMILIES[depth].pair(Start(*recipe.initial_depth, recipe.bounds))
        case int() | np.integer() if not isinstance(depth, bool):
            prior, posterior = FixedDepth(int(depth)), FixedDepth(int(depth))
        case _:
            raise InvalidArgumentError(
                f"must be one of {', '.join(FAMILIES)}, a whole number of at least 0, or a pair of depth distributions "
                f"(prior, posterior), got {depth!r}.",
                "depth",
            )
    if recipe.unfreeze and isinstance(posterior, DepthDistribution):
        posterior = check_unfrozen(posterior)
    if isinstance(depth, tuple) or not all(is_own(type(one)) for one in (prior, posterior)):
        check_pair(prior, posterior)
    return prior, posterior


def check_depth(depth: Depth, recipe: Recipe) -> None:
    """As `depth_distributions` checks it. Of our own families a name says enough: arrays would start JAX, and the
    command line checks what it was given before it reads a table."""
    if not (isinstance(depth, str) and depth in FAMILIES and is_own(FAMILIES[depth])):
        depth_distributions(depth, recipe)
