"""Ctrl-C in `fit` ends what is around it, too; what is there is kept where there is a place for it."""

import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score

import leadline
from leadline import DepthClassifier
from leadline._checks import UnfinishedWarning
from leadline.training.interruption import Interruption

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = (X[:, 0] > 0).astype(int)
SMALL = {"width": 4, "n_restarts": 2, "max_iter": 400, "early_stopping": False, "random_state": 0}


def pressing(at):
    """A callback that is the user who presses Ctrl-C at an epoch."""
    return lambda now: now.epoch == at and signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def _heard():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell it is ignored
    yield
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


def test_ctrl_c_leaves_the_estimator_as_it_was():
    est = DepthClassifier(**SMALL).fit(X, Y)
    before, said = est.predict_proba(X), dict(vars(est))
    with pytest.raises(KeyboardInterrupt):
        est.set_params(callback=pressing(1)).fit(5 * X + 1, Y)
    assert {**vars(est), "callback": None}.keys() == said.keys()
    assert all(vars(est)[name] is said[name] for name in said if name != "callback")
    np.testing.assert_array_equal(est.predict_proba(X), before)
    fresh = DepthClassifier(**SMALL, callback=pressing(1))
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(X, Y)
    assert not [name for name in vars(fresh) if name.endswith("_")]


@pytest.mark.parametrize("at", [1, 400])  # 400: when all was done, but for this one
def test_ctrl_c_ends_a_loop_of_fits(at):
    begun = []

    def callback(now):
        begun.append(now.epoch)
        pressing(at)(now)

    def loop():
        for _ in range(3):
            DepthClassifier(**SMALL, callback=callback).fit(X, Y)

    with pytest.raises(KeyboardInterrupt):
        loop()
    assert begun.count(1) == 1


def test_ctrl_c_ends_a_grid_search():
    search = GridSearchCV(DepthClassifier(**SMALL, callback=pressing(1)), {"width": [2, 4]}, error_score=0.0, cv=2)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, Y)


def test_the_same_fit_goes_on_after_ctrl_c(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        DepthClassifier(**SMALL, checkpoint_dir=tmp_path, callback=pressing(7)).fit(X, Y)
    seen = []
    again = DepthClassifier(**SMALL, checkpoint_dir=tmp_path, callback=lambda now: seen.append(now.epoch)).fit(X, Y)
    assert 7 < seen[0] < 400
    assert again.n_iter_ == 400
    np.testing.assert_array_equal(again.predict_proba(X), DepthClassifier(**SMALL).fit(X, Y).predict_proba(X))


def test_a_callback_that_ends_the_training_is_no_interruption():
    ended = DepthClassifier(**SMALL, callback=lambda now: True).fit(X, Y)
    assert ended.n_iter_ < 400
    ended.predict(X)  # without a warning: it was meant so
    assert len(cross_val_score(DepthClassifier(**SMALL, callback=lambda now: True), X, Y, cv=2)) == 2


def test_a_model_that_was_cut_off_says_so_once_a_call(tmp_path):
    """As the command line, which hears Ctrl-C for itself, writes it."""
    with Interruption() as heard:
        est = DepthClassifier(**SMALL, callback=pressing(1)).fit(X, Y)
    assert heard.asked
    assert est.interrupted_
    est.save(tmp_path / "cut.safetensors")
    loaded = leadline.load(tmp_path / "cut.safetensors")
    for one in (est, loaded):
        for call in (one.predict, one.predict_proba, one.uncertainty):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                call(X)
            assert [warning.category for warning in said] == [UnfinishedWarning]
    assert str(said[0].message).startswith("The training of this model was cut off")


LOOP = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np
from sklearn.model_selection import cross_val_score
from leadline import DepthClassifier
X = np.random.default_rng(0).normal(size=(300, 2))
est = DepthClassifier(max_iter=200_000, early_stopping=False, n_restarts=2, width=4, random_state=0, verbose=True)
print("scores", cross_val_score(est, X, X[:, 0] > 0, cv=3, n_jobs=int(sys.argv[1])), flush=True)
"""


@pytest.mark.parametrize(("n_jobs", "all_hear"), [(1, False), (2, False), (2, True)])
def test_ctrl_c_ends_a_process_in_the_middle_of_a_cross_validation(n_jobs, all_hear):
    """As a terminal sends it, to all processes, or `kill` to the one."""
    given = [sys.executable, "-c", LOOP, str(n_jobs)]
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    process = subprocess.Popen(given, **pipe)
    assert process.stderr is not None
    while "beginning" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(1)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT) if all_hear else process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert stdout == ""
    assert stderr.rstrip().endswith("KeyboardInterrupt")
