"""The examples run as they are, in processes of their own, and what they save is read by others."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
MOST_LINES = 60


def python(folder, *arguments):
    """What a process says that can import the examples."""
    paths = [str(EXAMPLES), str(EXAMPLES.parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        [sys.executable, "-W", "error", *map(str, arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(folder, name):
    return python(folder, EXAMPLES / f"{name}.py")


def test_they_are_short():
    lengths = {path.stem: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert set(lengths) == {"fifty_seeds", "nuts_beside_vi", "own_block", "own_family", "own_likelihood"}
    assert max(lengths.values()) < MOST_LINES


def test_fifty_seeds(tmp_path):
    said = run(tmp_path, "fifty_seeds")
    assert said.startswith("epoch 100: E[L] from ")
    mean, *_ = re.findall(r"^mean +([\d.]+)", said, re.M)
    assert 0 < float(mean) < np.log(2)  # better than no idea
    best = re.findall(r"best seeds: \[(.*)\]", said)[0].split(", ")
    assert len({int(seed) for seed in best} & set(range(50))) == 5


SAVED = {
    "own_family": ("binomial", "type(model.model_.depth_posterior).__name__", "BinomialDepth"),
    "own_block": ("skipping", "type(model.model_.network.first).__name__", "Skipping"),
    "own_likelihood": ("logistic", "type(model.model_.likelihood).__name__", "LogisticNoise"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAVED)
def test_parts_of_ones_own_train_and_are_read_by_another_process(tmp_path, name):
    said = run(tmp_path, name)
    file, what, expected = SAVED[name]
    energies = [float(number) for number in re.findall(r"free energy (-?[\d.]+)", said)]
    assert len(energies) == 2
    assert np.all(np.isfinite(energies))
    load = f"model = leadline.load('{file}.safetensors'); print({what})"
    assert python(tmp_path, "-c", f"import leadline, {name}; {load}") == f"{expected}\n"
    refusal = f"""if True:
        import leadline
        try:
            leadline.load('{file}.safetensors')
        except leadline.InvalidArgumentError as error:
            print(error)
    """
    assert "which is not registered" in python(tmp_path, "-c", refusal)


@pytest.mark.slow
def test_nuts_beside_vi(tmp_path):
    pytest.importorskip("blackjax")
    head, *lines = run(tmp_path, "nuts_beside_vi").splitlines()
    assert head.split()[0] == "depth"
    depth, q, by_vi, by_nuts = np.array([line.split() for line in lines], float).T
    assert depth.tolist() == [0, 1, 2]
    assert q.sum() == pytest.approx(1, abs=0.02)
    assert np.all((by_vi > 0) & (by_nuts > 0) & (by_nuts < np.log(2)))
