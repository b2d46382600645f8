"""Training: from problems and settings to models."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import numpy as np

from leadline._checks import InvalidArgumentError, check_integer
from leadline._identity import identity
from leadline.backend.compilation import jit_lightly, make_room
from leadline.backend.device import backend
from leadline.backend.forks import on_device
from leadline.backend.numerics import as_float
from leadline.backend.random import fold_in
from leadline.backend.sharding import local, sharing
from leadline.depth import FixedDepth, Pair
from leadline.depth.side_by_side import kind_of
from leadline.inference.door import check_likelihood
from leadline.inference.model import Model
from leadline.inference.predict import log_likelihood
from leadline.inference.recipes import Recipe, get_recipe
from leadline.inference.restarts import keys_of, restart_keys
from leadline.likelihoods import Likelihood
from leadline.network.blocks import BLOCKS, Dense
from leadline.training import native
from leadline.training.augmentation import augmentation_of
from leadline.training.checkpoint import last_checkpoint
from leadline.training.data import make_parts, make_tables
from leadline.training.devices import by_devices, shared_checkpoint, shared_plan
from leadline.training.drawing import Shape, depths_of_runs, draw_models, likelihoods_of_runs
from leadline.training.epochs import Plan, train_epochs, train_epochs_lightly
from leadline.training.pace import FixedLength, OwnLength, Paces
from leadline.training.problem import Problem, added_in_units
from leadline.training.run import Run, Watch
from leadline.training.settings import Settings
from leadline.training.state import init_state
from leadline.training.storage import Storage
from leadline.training.trained import History, Trained, held_out_together

N_VALIDATIONS = 200
"""How often the validation part is looked at, at least, where nothing depends on it."""

MOST_STEPS = {"fixed": 50_000, "learned": 62_500}
"""Of a training that chooses its own length, if nobody says how long it may be: large tables have learned by then. A
network whose depth is learned has to find it first, and may take a quarter more."""

SHORT = 10_000
"""Steps up to which a training is compiled lightly."""

# A run's random stream: its seed's key, folded with what the draw is for (`inference/restarts.py` and `growth.py` have
# the others).
_TRAINING, _SELECTION = 1, 5

_unpack = jit_lightly(Model.unpack)


def train(
    problem: Problem | Sequence[Problem],
    settings: Settings | Sequence[Settings] | None = None,
    *,
    watch: Watch | None = None,
    start: Model | None = None,
) -> Trained:
    """Train the networks of one fit, or of several, all side by side in one compiled program.

    A fit is a problem and its settings; its restarts (and temperatures, where there is a choice) are runs of their own.
    What comes of a run depends on its problem and its settings, not on the runs beside it. With `temperature="auto"`
    every fit is trained at each of `TEMPERATURES` and keeps the one with the best validation likelihood; where the
    recipe has kinds, each of these is trained at its own, and `Trained.calibrated` weighs them. With
    `own_length` the validation likelihood of a fit decides how long to train it, and `epochs` is the most it may take
    (see `OwnLength`; unless given, MOST_STEPS bounds it too). Ctrl-C ends the training after the epochs in hand and
    keeps what it has. A run that diverges goes back to where it was before, with smaller learning rates, up to
    MOST_SLOWED times.

    Args:
        problem: one for all fits, or one for each, all of one shape.
        settings: of one fit, or of each; they may differ in depth and seed alone.
        watch: who is told what meanwhile, and where checkpoints go.
        start: the models to start from, one per fit and restart, as an earlier training returned them.

    Returns:
        The models, on an axis of runs, and how they came to be.

    Examples:
        >>> import numpy as np
        >>> from leadline import CategoricalLikelihood, Problem, Settings, train
        >>> x = np.linspace(-1, 1, 40)[:, None]
        >>> y = (x[:, 0] > 0).astype(int)
        >>> problem = Problem((x, y), (x, y), CategoricalLikelihood(2))
        >>> trained = train(problem, Settings(width=4, n_restarts=3, epochs=20))
        >>> trained.model.runs, trained.epochs
        ((3,), 20)
    """
    return Training(problem, settings, watch=watch, start=start).finish()


class Training:
    """A training that its owner moves on: some epochs, a look at the models, some more. `train` goes to the end of one
    at once; how it is cut into pieces changes no bit of what comes of it.

    Args:
        problem: as `train` takes it, and so are the others.
        settings: how.
        watch: who is told what meanwhile.
        start: the models to start from.

    Examples:
        >>> import numpy as np
        >>> from leadline import CategoricalLikelihood, Problem, Settings, Training
        >>> x = np.linspace(-1, 1, 40)[:, None]
        >>> problem = Problem((x, (x[:, 0] > 0).astype(int)), 0.2, CategoricalLikelihood(2))
        >>> training = Training(problem, Settings(width=4, n_restarts=1, epochs=20))
        >>> training.advance(5)
        >>> training.epoch, training.end, training.models.runs
        (5, 20, (1,))
        >>> training.finish().epochs
        20
    """

    def __init__(
        self,
        problem: Problem | Sequence[Problem],
        settings: Settings | Sequence[Settings] | None = None,
        *,
        watch: Watch | None = None,
        start: Model | None = None,
    ):
        make_room()
        watch = watch or Watch()
        problems, fits = _one_for_each(problem, Settings() if settings is None else settings)
        common, likelihood = fits[0], problems[0].likelihood
        temperatures, recipe = common.temperatures(), get_recipe(common.recipe)
        recipe = replace(recipe, temperature=temperatures.max(), learning_rate=common.learning_rate)
        assert isinstance(common.batch_size, int)  # resolved
        seeds = [one.seed for one in fits]
        shape = (len(fits), *temperatures.shape)
        n_restarts = shape[2]
        depths = depths_of_runs(fits, recipe, shape)
        tables = make_tables(problems)
        check_likelihood(likelihood, tables[1].reshape(-1, *tables[1].shape[2:]))
        parts, held = make_parts(tables, problems, shape, seeds, held_out_together(recipe, likelihood, n_restarts))
        augmentation = augmentation_of(common.crop, common.flip, problems[0].shape)
        n_inputs, n_rows = problems[0].shape or tables[0].shape[-1], int(parts["train"].n_rows)

        words = np.concatenate([np.tile(restart_keys(seed, n_restarts), (len(temperatures), 1)) for seed in seeds])
        sizes = {"recipe": recipe, "block": common.block, "width": common.width}
        likelihoods = likelihoods_of_runs(likelihood, recipe, shape)
        drawn = partial(draw_models, depths, n_inputs, likelihoods, **sizes)
        shared = sharing()
        by_engine = BLOCKS[common.block] is Dense and backend().has_engine
        by_engine = by_engine and shared is None and common.precision == "float32"
        by_engine = by_engine and native.suits(drawn(words=words[:1], capacity=1, natively=True), recipe)
        drawn = partial(drawn, words=words, natively=by_engine)
        of_runs = {
            "key": keys_of(fold_in(words, _TRAINING)),
            "temperature": as_float(np.broadcast_to(temperatures, shape).ravel()),
        }
        begin = (
            partial(native.init_state, **of_runs)
            if by_engine
            else partial(init_state, **of_runs, optimiser=recipe.directions)
        )
        if shared is not None:
            shared = shared.of_runs(len(words))
            begin = shared.begun(begin)
        state = begin(drawn() if start is None else _checked_start(start, drawn, shape, recipe.weigh_depths))
        batch_size = min(common.batch_size, parts["train"].rows.shape[1])
        steps_per_epoch = -(-n_rows // batch_size)
        most, make_pace = _paces(common, recipe, likelihood, tables, depths, shape, steps_per_epoch)
        pace = make_pace()
        plan = Plan(
            **parts,
            clock=pace.clock,
            validate_every=jax.device_put(np.array(pace.validate_every, np.int32)),
            learning_rate=as_float(recipe.learning_rate),
            depth_learning_rate=as_float(recipe.depth_learning_rate),
            recipe=recipe.compiled(),
            batch_size=batch_size,
            n_samples=4 if common.own_length else 1,
            augmentation=augmentation,
            steps_per_epoch=None if backend().loops_are_dynamic else steps_per_epoch,
            sharing=shared,
            precision=common.precision,
        )
        light = common.own_length or most * steps_per_epoch <= SHORT
        in_units = added_in_units(problems, held)
        names = (one.identity(problem) for problem, one in zip(problems, fits, strict=True))
        checkpoints = watch.checkpoints(lambda: identity(list(names), start))
        begun = last_checkpoint(checkpoints, state, make_pace, steps_per_epoch)
        advance = native.train_epochs if by_engine else train_epochs_lightly if light else train_epochs
        if shared is not None:
            shared.check_alike((plan, begun.state))
            begun, advance = shared_checkpoint(begun, shared), by_devices(advance, shared)
        self._run = Run(
            plan if shared is None else shared_plan(plan),
            begun,
            Storage(lambda capacity: begin(drawn(capacity=capacity))),
            make_pace,
            np.repeat(seeds, shape[1] * shape[2]),
            watch,
            advance,
            checkpoints,
            in_units,
        )
        self._by_engine, self._watch, self._in_units = by_engine, watch, in_units
        self._recipe, self._likelihood, self._settings, self._temperatures = recipe, likelihood, fits, temperatures
        self._plan, self._words, self._shape, self._held, self._problems = plan, words, shape, held, problems

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return self._run.epoch

    @property
    def end(self) -> int | None:
        """The last epoch; None as long as it is not decided."""
        return self._run.pace.end

    @property
    def models(self) -> Model:
        """As they are now, with an axis of runs: valid until the training goes on."""
        return self._unpacked(self._run.state.model)

    def advance(self, n_epochs: int = 1) -> None:
        """Train for so many epochs more; fewer, where it ends sooner or somebody who follows it asks for that.

        Args:
            n_epochs: at least 1.
        """
        check_integer("n_epochs", n_epochs, 1)
        try:
            self._run.advance(self._run.epoch + n_epochs)
        except BaseException:
            self._watch.close()
            raise

    def finish(self) -> Trained:
        """Train to the end.

        Returns:
            The models that the recipe keeps, on an axis of runs, and how they came to be.
        """
        run, shape, settings, temperatures = self._run, self._shape, self._settings, self._temperatures
        try:
            state = run.finish()
        finally:
            self._watch.close()
        end, history, held = run.pace.end, run.history.columns(self._in_units), self._held
        models = self._unpacked(state.best if self._recipe.keep == "lowest_free_energy" else state.model)
        chosen, validation_nll = np.zeros(len(settings), int), {}
        if len(temperatures) > 1:
            own_rows = held.size > 0 and not self._likelihood.common_validation
            nll = _validation_nll(models, self._words, self._plan, shape, own_rows)
            chosen, validation_nll = nll.argmin(axis=1), dict(zip(temperatures[:, 0].tolist(), nll.T, strict=True))
            runs = np.arange(len(self._words)).reshape(shape)[np.arange(len(settings)), chosen].ravel()
            models = models.some(runs)
            history = {name: column[:, runs] for name, column in history.items()}
            held = held[runs]
        trained = Trained(
            model=models,
            history=History(history),
            settings=tuple(settings),
            temperatures=temperatures[chosen],
            validation_nll=validation_nll,
            validation_rows=held,
            epochs_of_fits=run.pace.done(int(state.epoch)),
            seconds=run.seconds,
            compile_seconds=run.compile_seconds or 0.0,
            interrupted=end is None or int(state.epoch) < end,
        )
        return trained.weighed(self._problems)

    def _unpacked(self, packed: Model) -> Model:
        if self._by_engine:
            return on_device(packed.unpack())
        return _unpack(packed if self._plan.sharing is None else local(packed))


def _one_for_each(
    problem: Problem | Sequence[Problem], settings: Settings | Sequence[Settings]
) -> tuple[list[Problem], list[Settings]]:
    """A problem and its resolved settings for every fit."""
    problems = [problem] if isinstance(problem, Problem) else list(problem)
    given = [settings] if isinstance(settings, Settings) else list(settings)
    n = max(len(problems), len(given))
    for name, several in (("problem", problems), ("settings", given)):
        if len(several) not in (1, n) or not several:
            raise InvalidArgumentError(f"must be one, or one for each of {n} fits, got {len(several)}.", name)
        several *= n // len(several)  # in place
    shares = {"rows" if isinstance(one.validation, tuple) else one.validation for one in problems}
    if len(shares) > 1 or len({type(one.likelihood) for one in problems}) > 1:
        raise InvalidArgumentError("must all have one likelihood, and rows or one share to validate on.", "problem")
    if len({one.shape for one in problems}) > 1:
        raise InvalidArgumentError("must all have images of one shape, or none.", "problem")
    for one in given:
        if replace(one, depth=given[0].depth, seed=given[0].seed) != given[0]:
            raise InvalidArgumentError(f"may differ in depth and seed alone, got {given[0]} and {one}.", "settings")
    return problems, [one.resolved(problem.likelihood) for problem, one in zip(problems, given, strict=True)]


def _paces(
    settings: Settings,
    recipe: Recipe,
    likelihood: Likelihood,
    tables: Any,
    depths: list[Pair],
    shape: Shape,
    steps_per_epoch: int,
) -> tuple[int, Callable[[], Paces]]:
    """The most epochs that the first fit may take, and what makes the paces of all."""
    n_fits = shape[0]
    most = [recipe.epochs if settings.epochs is None else settings.epochs] * n_fits
    if settings.own_length:
        if settings.epochs is None:
            of_fits = depths * n_fits if len(depths) == 1 else depths[:: len(depths) // n_fits]
            steps = [MOST_STEPS["fixed" if isinstance(q, FixedDepth) else "learned"] for _, q in of_fits]
            most = [min(recipe.epochs, -(-n // steps_per_epoch)) for n in steps]
        guessing = [likelihood.nll_of_guessing(y, w) for _, y, w in zip(*tables, strict=True)]
        nats = np.broadcast_to(guessing, n_fits)
        paces = [partial(OwnLength, n, steps_per_epoch, own) for n, own in zip(most, nats, strict=True)]
    else:
        every = 1 if recipe.keep == "lowest_free_energy" else max(1, most[0] // N_VALIDATIONS)
        paces = [partial(FixedLength, n, every) for n in most]
    return most[0], lambda: Paces([make() for make in paces], shape[1] * shape[2])


def _checked_start(start: Model, draw_models: Callable[..., Model], shape: Shape, weighed: bool) -> Model:
    """A copy of the models to start from, for every temperature, which must be such as would be drawn; but for q(L)
    where rows have weighed it, which begins anew."""
    n_fits, _, n_restarts = shape
    runs = np.arange(n_fits * n_restarts).reshape(n_fits, 1, n_restarts)
    if start.runs == (runs.size,):
        copies, drawn = start.some(np.broadcast_to(runs, shape).ravel()), draw_models(capacity=start.capacity)
        if weighed:
            copies = eqx.tree_at(lambda models: models.depth_posterior, copies, drawn.depth_posterior)
        if kind_of(copies) == kind_of(drawn):
            return copies
    raise InvalidArgumentError(
        "`start` must have models of the same inputs, outputs, width, depth family, prior and number of runs."
    )


def _validation_nll(models: Model, words: np.ndarray, plan: Plan, shape: Shape, own_rows: bool) -> np.ndarray:
    """Nats per validation row for every fit and temperature, the restarts averaged: their predictions where they share
    the rows, their likelihoods where each has its own."""
    words, nll = fold_in(words, _SELECTION), np.empty(shape)
    rows = np.asarray(plan.validation.rows)[:, : int(plan.validation.n_rows)]
    groups = np.arange(len(words)).reshape(-1, 1 if own_rows else shape[2])
    for runs in groups:
        table = int(np.asarray(plan.table)[runs[0]])
        x, y, weight = (np.asarray(a)[table][rows[runs[0]]] for a in (plan.data.x, plan.data.y, plan.data.weight))
        log_p = log_likelihood(models.some(runs), x, y, key=keys_of(words[runs]))
        mean = np.logaddexp.reduce(log_p, axis=0) - np.log(len(runs))
        nll.reshape(-1)[runs] = -np.average(mean, weights=weight)
    return nll.mean(axis=2)
