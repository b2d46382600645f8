"""The bits of a row of trainings, as digests: what a change of the code must leave as it is.

    python benchmarks/digests.py --json digests.json       # before
    python benchmarks/digests.py --check digests.json      # after, on the same machine: exit status 1 if any differs

Every job gives a digest of all parameters (in no order: names and places of arrays may change) and one of every entry
of its record, but for times and places. An entry that only one side has is named, and is no difference. CPUs of other
kinds round otherwise: digests hold on the machine that wrote them.
"""

import argparse
import csv
import hashlib
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

EPOCHS = 300
RECIPES = ("leadline", "published", "written")
DEPTHS = ("normal", "poisson", "categorical", 2)
PASSING = ("seconds", "device", "version", "training_seconds", "compile_seconds", "settings", "table")
"""Entries that say when, where and how a record was made."""


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def of_parameters(models: Any) -> str:
    """Of all arrays of a pytree, whatever their order."""
    import jax

    arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(models)]
    each = sorted(digest(f"{a.dtype} {a.shape}".encode() + np.ascontiguousarray(a).tobytes()) for a in arrays)
    return digest("".join(each).encode())


def of_entries(record: dict[str, Any]) -> dict[str, str]:
    return {
        name: digest(json.dumps(value, sort_keys=True).encode())
        for name, value in record.items()
        if name not in PASSING
    }


def of_table(path: Path) -> dict[str, str]:
    """Of a table, column by column."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return of_entries({f"{path.stem}.{name}": [row[name] for row in rows] for name in rows[0] if name not in PASSING})


def leadline(*arguments: object) -> None:
    code = "from leadline.cli import main; main()"
    subprocess.run([sys.executable, "-c", code, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def spiral(recipe: str, depth: str | int, folder: Path, **more: Any) -> dict[str, Any]:
    from leadline import Settings
    from leadline.studies.evaluate import run_fits
    from leadline.studies.spiral import spiral_problem

    [one] = run_fits([spiral_problem(10.0)], [Settings(depth=depth, recipe=recipe, epochs=EPOCHS, **more)])
    record = json.loads(json.dumps(one.record.to_json()))
    return {"parameters": of_parameters(one.restarts.models), "record": of_entries(record)}


def fit(name: str, folder: Path, *options: object) -> dict[str, Any]:
    """On the command line, as one would fit one's own table."""
    from sklearn import datasets

    from leadline import load

    frame = getattr(datasets, f"load_{name}")(as_frame=True).frame
    frame.to_csv(folder / f"{name}.csv", index=False)
    leadline("fit", folder / f"{name}.csv", "--target", "target", "--out", folder / "run", "--quiet", *options)
    leadline("predict", folder / "run", folder / f"{name}.csv", "--out", folder / "predictions.csv", "--quiet")
    record = json.loads((folder / "run" / "record.json").read_text())
    return {
        "parameters": of_parameters(load(folder / "run" / "model.safetensors").model_),
        "record": of_entries(record) | of_table(folder / "predictions.csv"),
    }


def of_estimator(estimator: Any, x: Any) -> dict[str, Any]:
    """What an estimator has learned and predicts."""
    said = {
        name: np.asarray(value).tolist() if not isinstance(value, dict) else None
        for name, value in vars(estimator).items()
        if name.endswith("_") and name not in ("model_", "fit_seconds_")
    }
    said |= {f"history.{name}": column.tolist() for name, column in estimator.history_.items()}
    said["free_energy_terms_"] = estimator.free_energy_terms_
    parts = estimator.uncertainty(x)
    said |= {f"uncertainty.{name}": getattr(parts, name).tolist() for name in ("noise", "weights", "depth")}
    said["predicted"] = estimator.predict(x).tolist()
    if hasattr(estimator, "predict_interval"):
        said["interval"] = estimator.predict_interval(x).tolist()
        said["cdf"] = estimator.predict_cdf(x, estimator.predict(x)).tolist()
    return {"parameters": of_parameters(estimator.model_), "record": of_entries(said)}


def diabetes(noise: str, folder: Path) -> dict[str, Any]:
    from sklearn.datasets import load_diabetes

    from leadline import DepthRegressor

    x, y = load_diabetes(return_X_y=True)
    return of_estimator(DepthRegressor(noise=noise, max_iter=400, random_state=0).fit(x, y), x)


def resumed(folder: Path) -> dict[str, Any]:
    """Cut off by its callback, begun again from the checkpoint."""
    from sklearn.datasets import load_iris

    from leadline import DepthClassifier

    x, y = load_iris(return_X_y=True)
    given = {"random_state": 3, "checkpoint_dir": folder, "checkpoint_every": 0.0, "max_iter": 400}
    first = DepthClassifier(callback=lambda now: now.epoch >= 50, **given).fit(x, y)
    assert first.interrupted_
    return of_estimator(DepthClassifier(**given).fit(x, y), x)


def reproduce(folder: Path) -> dict[str, Any]:
    given = ("--omegas", "3,12", "--runs", 1, "--epochs", EPOCHS, "--recipe", "published,leadline", "--quiet")
    leadline("reproduce", "--out", folder, *given)
    names = [f"{recipe}-{depth}.csv" for recipe in ("published", "leadline") for depth in ("normal", "poisson")]
    record = {key: value for name in [*names, "comparison.csv"] for key, value in of_table(folder / name).items()}
    return {"record": record}


def uci(folder: Path) -> dict[str, Any]:
    data = Path(__file__).resolve().parents[2] / "shared" / "data" / "uci"
    given = ("--names", "yacht", "--depth", "normal,1", "--splits", "0:2", "--epochs", EPOCHS, "--quiet")
    leadline("benchmark", "uci", "--data", data, "--out", folder, *given)
    return {"record": of_table(folder / "normal.csv") | of_table(folder / "1.csv")}


JOBS: dict[str, Callable[[Path], dict[str, Any]]] = {
    **{
        f"spiral {recipe} {depth}": lambda folder, recipe=recipe, depth=depth: spiral(recipe, depth, folder)
        for recipe in RECIPES
        for depth in DEPTHS
    },
    "spiral at the best temperature": lambda folder: spiral(
        "leadline", "normal", folder, temperature="auto", n_restarts=2
    ),
    "fit iris": lambda folder: fit("iris", folder),
    "fit wine": lambda folder: fit("wine", folder),
    "fit diabetes": lambda folder: fit("diabetes", folder, "--epochs", 400),
    "diabetes, constant noise": lambda folder: diabetes("constant", folder),
    "diabetes, noise by input": lambda folder: diabetes("input", folder),
    "resumed": resumed,
    "reproduce": reproduce,
    "uci": uci,
}


def compare(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Print what differs; how many entries do."""
    n_different = n_alike = 0
    for name, now in after.items():
        was = before.get(name)
        if was is None:
            print(f"{name}: not there before")
            continue
        was, now = ({"parameters": one.get("parameters"), **one["record"]} for one in (was, now))
        different = [key for key in was if key in now and was[key] != now[key]]
        n_different, n_alike = n_different + len(different), n_alike + len(was.keys() & now.keys()) - len(different)
        lost, new = [key for key in was if key not in now], [key for key in now if key not in was]
        notes = [f"{words} {', '.join(keys)}" for words, keys in (("gone:", lost), ("new:", new)) if keys]
        print(
            f"{name}: {'DIFFERS in ' + ', '.join(different) if different else 'the same'}"
            + "".join(f"; {note}" for note in notes)
        )
    print(f"{n_alike} entries alike, {n_different} different")
    return n_different


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="jobs whose names begin so, with commas between")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--check", type=Path)
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    for name, job in JOBS.items():
        if not name.startswith(tuple(arguments.only.split(","))):
            continue
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            results[name] = job(Path(folder))
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    if arguments.json:
        where = {"machine": platform.processor() or platform.machine(), "python": platform.python_version()}
        arguments.json.write_text(json.dumps({"where": where, "jobs": results}, indent=1) + "\n")
    if arguments.check:
        sys.exit(compare(json.loads(arguments.check.read_text())["jobs"], results) > 0)


if __name__ == "__main__":
    main()
