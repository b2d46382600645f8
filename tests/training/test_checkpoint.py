"""A training that is cut off and started again ends with the bits of one that was left alone."""

import dataclasses
import os
import resource
import signal
import warnings
from functools import partial

import equinox as eqx
import jax
import numpy as np
import optax
import pandas as pd
import pytest

from leadline import (
    RECIPES,
    CategoricalLikelihood,
    GaussianLikelihood,
    InvalidArgumentError,
    Problem,
    Settings,
    TrainingDivergedError,
)
from leadline._identity import identity
from leadline.files import checkpoints
from leadline.files.checkpoints import CheckpointWarning, DamagedError, clear
from leadline.training import native, run
from leadline.training.checkpoint import trees_like, understood
from leadline.training.run import TrainingSlowedWarning
from tests.training_of import train_on

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)


def training(folder=None, **options):
    given = {"epochs": 200, "width": 8, "seeds": [1, 2], "n_restarts": 2, "checkpoint_every": 0.0, **options}
    return train_on((X, Y), (X, Y), CategoricalLikelihood(2), checkpoint_dir=folder, **given)


def assert_same_bits(one, other):
    for a, b in zip(jax.tree.leaves(one.model), jax.tree.leaves(other.model), strict=True):
        np.testing.assert_array_equal(a, b)
    for name in one.history:
        np.testing.assert_array_equal(one.history[name], other.history[name])
    assert one.epochs_of_fits == other.epochs_of_fits


def stop_after(calls):
    """An `on_call` that ends the training after so many compiled calls."""
    left = iter(range(calls - 1))
    return lambda _: next(left, None) is None


@pytest.fixture(scope="module")
def alone():
    return training()


@pytest.mark.parametrize("calls", [1, 2, 4])
def test_a_training_that_was_stopped_goes_on_to_the_same_bits(alone, tmp_path, calls):
    first = training(tmp_path, on_call=stop_after(calls))
    assert first.interrupted
    assert first.epochs < 200
    second = training(tmp_path)
    assert not second.interrupted
    assert_same_bits(second, alone)


def test_checkpoints_change_nothing(alone, tmp_path):
    assert_same_bits(training(tmp_path), alone)


def test_only_the_last_two_are_kept_and_a_finished_training_is_not_trained_again(alone, tmp_path):
    training(tmp_path)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert len(files) == 2
    assert files[-1].split("-")[1:3] == ["0000", "000000200"]
    told = []
    again = training(tmp_path, report=told.append)
    assert_same_bits(again, alone)
    assert told == []


@pytest.mark.parametrize("recipe", ["written", "published"])
def test_what_the_other_recipes_keep_is_kept(tmp_path, recipe):
    """The best model so far, and the noise of another kind."""
    options = {"recipe": recipe, "epochs": 30, "n_restarts": 1}
    training(tmp_path, on_call=stop_after(3), **options)
    assert_same_bits(training(tmp_path, **options), training(**options))


def test_a_length_that_the_data_decide_is_decided_alike(tmp_path):
    x = RNG.normal(size=(80, 1))
    given = ((x, x + 0.1 * RNG.normal(size=(80, 1))), 0.2, GaussianLikelihood(1))
    options = {"own_length": True, "epochs": 400, "width": 4, "seeds": [3, 4], "n_restarts": 1}
    alone = train_on(*given, **options)
    for calls in (2, 3):  # before and after the decision, perhaps
        train_on(*given, checkpoint_dir=tmp_path, checkpoint_every=0.0, on_call=stop_after(calls), **options)
    resumed = train_on(*given, checkpoint_dir=tmp_path, **options)
    assert_same_bits(resumed, alone)


def test_layers_that_grew_are_kept(tmp_path):
    """q(L) starts beyond the layers that are stored at first."""
    from leadline.depth import NormalDepth

    deep = (NormalDepth(0.0, 5.0), NormalDepth(9.0, 2.0, 0.025, 0.975))
    options = {"depth": deep, "epochs": 12, "seeds": [1], "n_restarts": 1, "recipe": "leadline"}
    alone = training(**options)
    training(tmp_path, on_call=stop_after(2), **options)
    assert_same_bits(training(tmp_path, **options), alone)


def test_another_training_does_not_go_on_from_it(alone, tmp_path):
    training(tmp_path, on_call=stop_after(2))
    other = training(tmp_path, seeds=[1, 3])
    assert other.epochs == 200
    np.testing.assert_array_equal(
        other.history["validation_nll"][:, :2], training(seeds=[1, 3]).history["validation_nll"][:, :2]
    )
    assert_same_bits(training(tmp_path), alone)  # its own are still there


@pytest.mark.parametrize("harm", ["truncated", "flipped", "emptied", "foreign"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_taken(alone, tmp_path, harm):
    training(tmp_path, on_call=stop_after(4))
    last = sorted(tmp_path.iterdir())[-1]
    content = bytearray(last.read_bytes())
    if harm == "truncated":
        content = content[: len(content) // 2]
    elif harm == "flipped":
        content[len(content) // 2] ^= 4
    elif harm == "emptied":
        content = b""
    else:
        content = b"something else\n" + content
    last.write_bytes(content)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        resumed = training(tmp_path)
    said = [str(one.message) for one in told]
    assert f"Cannot go on from the checkpoint {last}: it" in said[0]
    # What is not ours is not overwritten either.
    assert [f"Cannot write the checkpoint {last}: what is there is not Leadline's" in one for one in said[1:]] == (
        [True] if harm == "foreign" else []
    )
    assert (harm == "foreign") == last.exists()
    assert_same_bits(resumed, alone)


@pytest.mark.parametrize("harm", ["a pipe", "another type", "no time", "larger than memory"])
def test_a_checkpoint_that_was_never_written_so_is_not_waited_for(alone, tmp_path, harm):
    training(tmp_path, on_call=stop_after(4))
    last = sorted(tmp_path.iterdir())[-1]
    payload = checkpoints.unwrapped(last.read_bytes())
    if harm == "a pipe":
        last.unlink()
        os.mkfifo(last)
    elif harm == "larger than memory":
        os.truncate(last, 2**43)
    elif harm == "another type":
        last.write_bytes(checkpoints.wrapped(payload.replace(b'"dtype":"F32"', b'"dtype":"BF16"', 1)))
    else:
        start, end = payload.index(b'"seconds":"') + 11, payload.index(b'"}', payload.index(b'"seconds":"'))
        last.write_bytes(checkpoints.wrapped(payload[:start] + b"nan".ljust(end - start) + payload[end:]))
    words = "Cannot write" if harm == "a pipe" else "Cannot go on from"
    with pytest.warns(CheckpointWarning, match=f"{words} the checkpoint .*{last.name}: "):
        resumed = training(tmp_path)
    assert_same_bits(resumed, alone)


def test_two_damaged_checkpoints_are_a_new_start(alone, tmp_path):
    """Of which checkpoints are kept, too: those that are damaged take nobody's place."""
    training(tmp_path, on_call=stop_after(4))
    for path in tmp_path.iterdir():
        path.write_bytes(b"")
    with pytest.warns(CheckpointWarning):
        training(tmp_path, on_call=stop_after(2))
    files = list(tmp_path.iterdir())
    assert len(files) == 2
    assert all(path.stat().st_size for path in files)
    assert_same_bits(training(tmp_path), alone)


def test_a_checkpoint_is_kept_though_there_are_some_of_later_epochs(tmp_path):
    """That are not Leadline's, whatever they are called."""
    training(tmp_path, epochs=2)
    first, last = sorted(tmp_path.iterdir())
    later = [tmp_path / last.name.replace("000000002", f"00000{i}000") for i in (1, 2)]
    later[0].mkdir()
    later[1].write_text("mine")
    first.unlink()
    last.unlink()
    with pytest.warns(CheckpointWarning, match="it is no checkpoint of this version's"):
        training(tmp_path, epochs=2)
    assert last.is_file()
    assert later[0].is_dir()
    assert later[1].read_text() == "mine"


def test_a_checkpoint_of_other_sizes_is_damaged_though_its_checksum_is_right(tmp_path):
    states = []
    training(tmp_path, on_call=states.append, epochs=5)
    content = sorted(tmp_path.iterdir())[-1].read_bytes()
    like = trees_like(states[-1])
    whole = understood(*checkpoints.decode(content, like))
    for harmed in (
        dataclasses.replace(whole, history=jax.tree.map(lambda a: a[:-1], whole.history)),
        dataclasses.replace(whole, state=jax.tree.map(lambda a: a[:1] if a.ndim else a, whole.state)),
        dataclasses.replace(whole, good=eqx.tree_at(lambda s: s.epoch, whole.good, whole.state.epoch + 1)),
        dataclasses.replace(
            whole, state=eqx.tree_at(lambda s: s.best.network.deeper, whole.state, replace_fn=lambda t: _shorter(t))
        ),
    ):
        trees = {name: getattr(harmed, name) for name in like}
        with pytest.raises(DamagedError, match=r"its (history|state)"):
            understood(*checkpoints.decode(checkpoints.encode(trees, 0.0), like))


HARMS = {
    "later than the end": (lambda s: s.epoch, 7),
    "before the beginning": (lambda s: s.step, -1),
    "beyond the epoch": (lambda s: s.step, 2**30),
    "slowed without end": (lambda s: s.slowed, -(2**30)),
    "slowed too often": (lambda s: s.slowed, 4),
    "another temperature": (lambda s: s.temperature, 1),
    "a weight": (lambda s: s.model.network.first.layer.numbers, np.nan),
    "a moment": (lambda s: s.optimiser.first["layer"].mu.numbers, np.inf),
    "a moment that no gradients give": (lambda s: s.optimiser.depth_posterior.mu.loc, -1e10),
    "a moment of no square": (lambda s: s.optimiser.depth_posterior.nu.loc, -1e10),
    "a count of the past": (lambda s: s.optimiser.first["layer"].count, -300),
    "a count of the future": (lambda s: s.optimiser.first["layer"].count, 10**9),
    "another prior": (lambda s: s.model.depth_prior.loc, 1),
    "as deep as the sea": (lambda s: s.model.depth_posterior.loc, 10**6),
    "a support below the layers": (lambda s: s.support.highest, 90),
}


@pytest.mark.parametrize(("harm", "native"), [*((harm, "1") for harm in HARMS), ("as deep as the sea", "0")])
def test_a_checkpoint_that_no_training_comes_to_is_damaged_though_its_checksum_is_right(
    tmp_path, monkeypatch, harm, native
):
    """Both the state and the one to go back to: training would never end, or read where nothing is."""
    monkeypatch.setenv("LEADLINE_NATIVE", native)
    given = {"seeds": [1], "n_restarts": 2, "epochs": 8, "width": 4, "checkpoint_every": 0.0}
    states = []
    training(tmp_path, on_call=states.append, **given)
    first, last = sorted(tmp_path.iterdir())
    first.unlink()
    like = trees_like(states[-1])
    whole = understood(*checkpoints.decode(last.read_bytes(), like))

    where, by = HARMS[harm]

    def harmed(state):
        return eqx.tree_at(where, state, np.asarray(where(state) + by, where(state).dtype))

    trees = {name: getattr(whole, name) for name in like} | {"state": harmed(whole.state)}
    if "slowed" in harm:
        trees["good"] = harmed(whole.good)
    if harm == "later than the end":
        trees["history"] = jax.tree.map(lambda a: np.concatenate([a, a[-7:]]), whole.history)
    last.write_bytes(checkpoints.encode(trees, 1.0))
    with pytest.warns(CheckpointWarning, match=f"Cannot go on from the checkpoint .*{last.name}: it|no training"):
        resumed = training(tmp_path, **given)
    assert resumed.epochs == 8


def _shorter(deeper):
    """With a layer less."""
    return jax.tree.map(lambda a: a[:, :-1], deeper)


def test_every_flipped_bit_is_noticed(tmp_path):
    """A thousand places of a file, head and body."""
    training(tmp_path, on_call=stop_after(2), seeds=[1], n_restarts=1)
    content = sorted(tmp_path.iterdir())[-1].read_bytes()
    places = np.unique(np.concatenate([np.arange(200), np.random.default_rng(0).integers(len(content), size=800)]))
    for place in places:
        broken = bytearray(content)
        broken[place] ^= 1 << (int(place) % 8)
        with pytest.raises(DamagedError):
            checkpoints.unwrapped(bytes(broken))


def test_a_disk_that_is_full_does_not_stop_the_training(alone, tmp_path):
    """A limit on the size of a file, below that of a checkpoint; the ones before stay."""
    training(tmp_path, on_call=stop_after(3))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    heard = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        with pytest.warns(CheckpointWarning, match="File too large. Training goes on without") as told:
            resumed = training(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, heard)
    assert len(told) == 1  # of many checkpoints that could not be written
    assert_same_bits(resumed, alone)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_does_not_stop_the_training(alone, tmp_path):
    tmp_path.chmod(0o555)
    with pytest.warns(CheckpointWarning, match="Permission denied"):
        assert_same_bits(training(tmp_path), alone)


def test_a_file_in_the_place_of_the_directory_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgumentError, match=r"`checkpoint_dir` must be a directory, got the file .*file"):
        training(tmp_path / "file")


@pytest.mark.usefixtures("as_users_have_it")
def test_a_directory_that_is_no_path_is_one_sentence():
    with pytest.raises(InvalidArgumentError, match="`checkpoint_dir` must be a path, got 5"):
        training(5)


def test_clear_removes_checkpoints_and_nothing_else(tmp_path):
    folder = tmp_path / "checkpoint"
    training(folder, epochs=2)
    (folder / "notes.txt").touch()
    clear(folder)
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    (folder / "notes.txt").unlink()
    training(folder, epochs=2)
    clear(folder)
    assert not folder.exists()
    clear(folder)  # and again


def test_an_identity_is_of_bits_and_words():
    given = (np.arange(3.0), jax.random.key(1), "words", None, 0.5)
    assert identity(*given) == identity(np.arange(3.0), jax.random.key(1), "words", None, 0.5)
    others = [
        (np.arange(3), jax.random.key(1), "words", None, 0.5),
        (np.nextafter(np.arange(3.0), 9), jax.random.key(1), "words", None, 0.5),
        (np.arange(3.0), jax.random.key(2), "words", None, 0.5),
        (np.arange(3.0), jax.random.key(1), "word", "s", 0.5),
        (np.arange(3.0), jax.random.key(1), "words", None, 0.25),
        (np.arange(3.0)[:, None], jax.random.key(1), "words", None, 0.5),
    ]
    assert len({identity(*given), *(identity(*other) for other in others)}) == 7


def test_an_identity_knows_functions_by_what_they_do():
    """Not by their places in memory; nor are two alike that differ in a number."""
    halves = [identity(lambda t: 1 - 0.5 * t) for _ in range(2)]
    assert halves[0] == halves[1]
    half, tenth = (lambda t: 1 - 0.5 * t, lambda t: 1 - 0.1 * t)  # of one name
    assert identity(half) != identity(tenth)
    rates = (0.5, 0.9)
    differ = [lambda t: 1 - 0.9 * t, lambda t, rate=0.5: 1 - rate * t, *(lambda t, r=r: t * r for r in rates)]
    differ += [partial(np.multiply, 2), partial(np.multiply, 3), optax.scale_by_adam(0.9), optax.scale_by_adam(0.8)]
    assert len({halves[0], *map(identity, differ)}) == 1 + len(differ)
    assert identity(optax.scale_by_adam(0.8)) == identity(optax.scale_by_adam(0.8))


def test_rows_in_a_frame_are_rows():
    x = np.arange(400.0).reshape(200, 2)
    changed = np.where(x == 200, -1.0, x)
    frames = [Problem((pd.DataFrame(a), x[:, 0]), 0.1, GaussianLikelihood(1)) for a in (x, changed)]
    assert Settings().identity(frames[0]) != Settings().identity(frames[1])


def diverging(folder=None, rate=30.0, **options):
    """A learning rate that is a hundred times too large."""
    recipe = dataclasses.replace(RECIPES["leadline"], name="fast", learning_rate=rate)
    options = {"recipe": recipe, "epochs": 60, "depth": 1, "n_restarts": 1, **options}
    return training(folder, **options)


def test_only_the_run_that_diverges_goes_on_more_slowly(monkeypatch):
    """A weight of the first of two runs becomes NaN, once, after epoch 20."""
    options = {"epochs": 60, "n_restarts": 1}
    alone = training(**options)
    harmed, slowed = [], []
    whole = native.train_epochs

    def harming(*given):
        state, history = whole(*given)
        if not harmed and int(state.epoch) > 20:
            harmed.append(int(state.epoch))
            state.model.depth_posterior.loc[0] = np.nan
        return state, history

    monkeypatch.setattr(native, "train_epochs", harming)
    with pytest.warns(TrainingSlowedWarning, match=r"for the seeds \[1\]; going on from epoch 16 with 0.3 of the"):
        other = training(on_call=lambda state: slowed.append(np.asarray(state.slowed).tolist()), **options)
    assert slowed[-1] == [1, 0]
    assert other.epochs == 60
    for name, column in alone.history.items():
        np.testing.assert_array_equal(other.history[name][:, 1], column[:, 1])
        np.testing.assert_array_equal(other.history[name][:16], column[:16])
    assert (other.history["validation_nll"][20:, 0] != alone.history["validation_nll"][20:, 0]).any()


def test_the_way_back_is_the_same_however_long_the_calls_are(monkeypatch):
    """Rates are made smaller at the epochs that the numbers say, not the clock."""
    with pytest.warns(TrainingSlowedWarning, match=r"diverged by epoch \d+ for the seeds \[[12, ]+\]; going on from"):
        as_it_comes = diverging()
    monkeypatch.setattr(run, "_next_call", lambda *_: 1)
    with pytest.warns(TrainingSlowedWarning):
        one_by_one = diverging()
    assert_same_bits(as_it_comes, one_by_one)
    assert np.isfinite(as_it_comes.history["free_energy"]).all()


def test_the_way_back_is_the_same_after_a_resumption(tmp_path):
    with pytest.warns(TrainingSlowedWarning):
        alone = diverging()
    with warnings.catch_warnings(action="ignore"):
        for calls in (1, 2, 4, 6):
            diverging(tmp_path, on_call=stop_after(calls))
            assert len(list(tmp_path.iterdir())) <= 2
        resumed = diverging(tmp_path)
    assert_same_bits(resumed, alone)


def test_a_run_that_diverges_again_and_again_stops_with_the_reason():
    with (
        pytest.warns(TrainingSlowedWarning) as heard,
        pytest.raises(
            TrainingDivergedError, match="3 times with smaller and smaller learning rates: the free energy or"
        ),
    ):
        diverging(rate=1e10, seeds=[1])
    assert len(heard) == 3


def test_way_marks_are_powers_of_two_from_16_and_then_every_512():
    marks = [epoch for epoch in range(2000) if run.is_way_mark(epoch)]
    assert marks == [0, 16, 32, 64, 128, 256, 512, 1024, 1536]
    assert all(
        run.next_way_mark(epoch) == min(mark for mark in [*marks, 2048] if mark > epoch) for epoch in range(2000)
    )


def test_a_clock_that_jumps_changes_nothing(alone, tmp_path, monkeypatch):
    """Hours forth and back between any two looks, as when a laptop sleeps or a clock is set."""
    jumps = np.random.default_rng(1)

    class Clock:
        perf_counter = monotonic = time = staticmethod(lambda: float(jumps.normal() * 1e5))

    for module in (run, checkpoints):
        monkeypatch.setattr(module, "time", Clock)
    training(tmp_path, on_call=stop_after(3), checkpoint_every=1e3)
    assert_same_bits(training(tmp_path, checkpoint_every=1e3), alone)
