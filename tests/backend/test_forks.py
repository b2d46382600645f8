"""A process that is forked after JAX was in use computes the same, or says one sentence; it never waits."""

import subprocess
import sys

# Both the weights and the rows are larger than what JAX copies without a thread.
FORK = """if True:
    import os, sys, warnings
    import numpy as np
    from leadline import DepthRegressor, NormalDepth, load
    warnings.filterwarnings("ignore", "os.fork")  # JAX's own word about it
    x = np.random.default_rng(0).normal(size=(3000, 12))
    options = {"width": 160, "n_restarts": 3, "max_iter": 1, "random_state": 0, "depth": 1}
    calls = {
        "fit": lambda: DepthRegressor(**options).fit(x, x[:, 0]).predict(x),
        "noise": lambda: DepthRegressor(**options, noise="constant").fit(x, x[:, 0]).noise_scale_,
        "predict": lambda: model.predict(x),
        "load": lambda: load(sys.argv[1]).predict(x),
        "prune": lambda: model.prune(x, x[:, 0]),
        "depth": lambda: NormalDepth(0.1, 1.0).pmf(8),
    }
    before, *asked = sys.argv[2:]
    if before == "fit":
        model = DepthRegressor(**options).fit(x, x[:, 0])
        model.save(sys.argv[1])
    elif before == "jax":
        NormalDepth().pmf(3)
    for call in asked:
        child = os.fork()
        if child == 0:
            try:
                np.save(f"{sys.argv[1]}-{call}.npy", calls[call]())
            except RuntimeError as error:
                print(f"{call}: {type(error).__name__}: {error}")
            sys.stdout.flush()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    for call in asked:  # only now: what is compiled here is there after a fork
        if os.path.exists(f"{sys.argv[1]}-{call}.npy"):
            print(f"{call}: {np.allclose(np.load(f'{sys.argv[1]}-{call}.npy'), calls[call](), rtol=1e-6)}")
"""

SENTENCE = (
    "AfterForkError: JAX was in use before this process was forked, and would wait for threads that are not here; "
    'start processes by "forkserver" or "spawn", as `multiprocessing.set_start_method` does.'
)


def forked(path, *how):
    """What came of every call in a process of its own."""
    command = [sys.executable, "-c", FORK, str(path / "model"), *how]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    return dict(line.split(": ", 1) for line in done.stdout.splitlines())


def test_the_engine_works_after_a_fork_and_what_it_does_not_know_is_one_sentence(tmp_path):
    works, not_known = ("fit", "noise", "predict", "load"), ("prune", "depth")
    expected = dict.fromkeys(works, "True") | dict.fromkeys(not_known, SENTENCE)
    assert forked(tmp_path, "fit", *works, *not_known) == expected


def test_without_the_engine_all_is_one_sentence_after_a_fork(tmp_path, monkeypatch):
    monkeypatch.setenv("LEADLINE_NATIVE", "0")
    assert forked(tmp_path, "jax", "fit", "depth") == {"fit": SENTENCE, "depth": SENTENCE}


def test_who_is_forked_before_has_jax_for_himself(tmp_path):
    assert forked(tmp_path, "nothing", "depth") == {"depth": "True"}
