"""Small trainings by several devices, in processes of their own; what came of them as JSON.

python -m tests.training.sharded here FOLDER BY: with as many forced devices as `XLA_FLAGS` says, and with one.
python -m tests.training.sharded together NUMBER PORT SEED FOLDER: as one of two processes.
"""

import json
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from leadline import (
    RECIPES,
    CategoricalLikelihood,
    PoissonDepth,
    Problem,
    Settings,
    Watch,
    evaluate_free_energy,
    sharded,
    train,
)
from leadline.backend.device import Backend, pretending
from leadline.inference.restarts import keys_of, restart_keys

SEEDS = (1, 2)
EPOCHS = 6


def problem(seed=0):
    """Its rows, those to validate on and those of a batch cannot be divided evenly."""
    x = np.random.default_rng(seed).normal(size=(101, 3))
    return Problem((x, (x[:, 0] * x[:, 1] > 0).astype(int)), 0.25, CategoricalLikelihood(2))


def diving():
    """Settings by which q(L) outgrows the eight layers that are stored at first."""
    recipe = replace(RECIPES["written"], temperature=0.0, depth_learning_rate=0.1, initial_scale=0.05, name="diving")
    return {"depth": (PoissonDepth(500.0), PoissonDepth(4.5, 0.95)), "recipe": recipe}


def trained(problem, settings, **watched):
    """What came of four runs."""
    sizes = {"width": 4, "n_restarts": 2, "epochs": EPOCHS, "batch_size": 31}
    fits = [Settings(**sizes, **settings, seed=seed) for seed in SEEDS]
    return train(problem, fits, watch=Watch(**watched))


def cut_short(problem, settings, folder):
    """The same, stopped on the way and gone on with."""
    stopped = trained(problem, settings, checkpoint_dir=folder, on_epoch=lambda now: now.epoch >= 2)
    assert stopped.epochs < EPOCHS
    return trained(problem, settings, checkpoint_dir=folder)


def said(problem, result):
    keys = keys_of(np.concatenate([restart_keys(seed, 2) for seed in SEEDS]))
    return {
        "free_energy": evaluate_free_energy(result.model, *problem.train, key=keys).total.tolist(),
        "history": result.history["free_energy"].tolist(),
        "capacity": result.model.capacity,
        "numbers": [np.asarray(a).tolist() for a in jax.tree.leaves(result.model)],
    }


def here(folder, by):
    ours, settings = problem(), diving() if by == "runs" else {}
    with pretending(Backend("cpu")) if by == "runs" else nullcontext():  # by JAX, to the bit, or by the engine
        one = trained(ours, settings)
    with sharded(by):
        shared, cut = trained(ours, settings), cut_short(ours, settings, Path(folder))
    results = {"one": one, "shared": shared, "cut": cut}
    return {name: said(ours, result) for name, result in results.items()}


def together(number, port, seed, folder):
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(number))
    ours = problem(int(seed))
    with sharded("rows"):
        return said(ours, cut_short(ours, {}, Path(folder)))


if __name__ == "__main__":
    what, *given = sys.argv[1:]
    print(json.dumps({"here": here, "together": together}[what](*given)))
