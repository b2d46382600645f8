"""Counts and classes in order, beside scikit-learn's and statsmodels' own models of them, on rows not trained on.

    python benchmarks/likelihoods.py --out results/likelihoods            # the tables that are reported
    python benchmarks/likelihoods.py --half choose --out /tmp/choose      # those that settings were chosen on
    python benchmarks/likelihoods.py --summary results/likelihoods        # the table of what is there

It needs the extra `bench`, and for `car` and tables to choose on `../shared/data/tables` (--data). Every method gets
the same rows, standardised, and the same columns; a fit that is in the file already is not done again. Measures are
means over the test rows: the NLL in nats per row; of counts the Poisson deviance and the root mean squared error, of
classes in order the accuracy, the distance in classes and the ranked probability score. The settings of ours are those
of the estimators but for --restarts and --epochs, which bound the time.
"""

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.special
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.model_selection import train_test_split

from leadline import DepthClassifier, DepthRegressor, metrics
from leadline.judged import OfCounts, OfRanks
from leadline.likelihoods.negative_binomial import log_mass

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "tables"
TRAINED, TESTED = 600, 1000
"""Rows of a split, at most."""

LEAST = 1e-6
"""The smallest probability of a class that counts."""

Rows = tuple[np.ndarray, np.ndarray]


# The tables: x, y


def randhie(half: str) -> Rows:
    """Visits to a doctor in a year, from the RAND health insurance experiment: one half to choose on, the other to
    report."""
    frame = statsmodels().datasets.randhie.load_pandas().data
    places = np.random.default_rng(12345).permutation(len(frame))
    middle = len(frame) // 2
    frame = frame.iloc[places[:middle] if half == "choose" else places[middle:]]
    return frame.drop(columns="mdvis").to_numpy(float), frame["mdvis"].to_numpy(float)


def cancer() -> Rows:
    """Deaths of breast cancer in counties, from how many women live there, and the log of that."""
    frame = statsmodels().datasets.cancer.load_pandas().data
    people = frame["population"].to_numpy(float)
    return np.column_stack([people, np.log(people)]), frame["cancer"].to_numpy(float)


def tv_news() -> Rows:
    """On how many days of a week somebody watches the news, from the election study of 1996."""
    frame = statsmodels().datasets.anes96.load_pandas().data.drop(columns=["logpopul"])
    return frame.drop(columns="TVnews").to_numpy(float), frame["TVnews"].to_numpy(float)


def party() -> Rows:
    """The party somebody is close to, in seven steps, from the election study of 1996."""
    frame = statsmodels().datasets.anes96.load_pandas().data.drop(columns=["logpopul", "vote"])
    return frame.drop(columns="PID").to_numpy(float), frame["PID"].to_numpy(int)


def marriage() -> Rows:
    """How somebody rates their marriage, in five steps, from the survey of Fair (1978)."""
    frame = statsmodels().datasets.fair.load_pandas().data
    return frame.drop(columns="rate_marriage").to_numpy(float), frame["rate_marriage"].to_numpy(int) - 1


def car(data: Path) -> Rows:
    """How acceptable a car is (1, unacceptable, 2, 3 and 4), of categories, each with columns of its own."""
    frame = pd.read_csv(data / "classes" / "car.csv.gz")
    places = {2: 0, 0: 1, 1: 2, 3: 3}  # unacc, acc, good, vgood, which are numbered by the alphabet
    x = pd.get_dummies(frame.drop(columns="target").astype(str), drop_first=True)
    return x.to_numpy(float), frame["target"].map(places).to_numpy(int)


def of_file(data: Path, name: str) -> Rows:
    frame = pd.read_csv(data / f"{name}.csv.gz")
    y = frame.pop("target").to_numpy()
    return frame.to_numpy(float), y.astype(float) if name.startswith("numbers") else np.unique(y, return_inverse=True)[
        1
    ]


def statsmodels() -> Any:
    import statsmodels.api

    return statsmodels.api


TABLES: dict[str, dict[str, dict[str, Callable[[Path], Rows]]]] = {
    "report": {
        "counts": {
            "randhie": lambda _: randhie("report"),
            "cancer": lambda _: cancer(),
            "tv_news": lambda _: tv_news(),
        },
        "ranks": {"marriage": lambda _: marriage(), "party": lambda _: party(), "car": car},
    },
    "choose": {
        "counts": {"randhie": lambda _: randhie("choose"), "vinnie": lambda data: of_file(data, "numbers/519_vinnie")},
        "ranks": {"wine_quality": lambda data: of_file(data, "classes/wine_quality_white")},
    },
}


def split(rows: Rows, seed: int, kind: str) -> tuple[np.ndarray, ...]:
    """Rows to train on and to measure on, standardised by the former; a quarter is kept apart."""
    x, y = rows
    of_classes = kind == "ranks"
    train, test = train_test_split(
        np.arange(len(x)), test_size=0.25, random_state=seed, stratify=y if of_classes else None
    )
    train, test = train[:TRAINED], test[:TESTED]
    scale = x[train].std(axis=0)
    x = (x - x[train].mean(axis=0))[:, scale > 0] / scale[scale > 0]
    return x[train], y[train], x[test], y[test]


# Methods: what they say of the test rows


def ours_of_counts(likelihood: str) -> Callable[..., OfCounts]:
    def say(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray, **how: Any) -> OfCounts:
        said: Any = DepthRegressor(likelihood=likelihood, **how).fit(x, y).said_of(x_test, y_test)
        return said

    return say


def ours_of_ranks(likelihood: str) -> Callable[..., OfRanks]:
    def say(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray, **how: Any) -> OfRanks:
        return OfRanks(*DepthClassifier(likelihood=likelihood, **how).fit(x, y).said_of(x_test, y_test))

    return say


def of_means(y: np.ndarray, mean: np.ndarray, dispersion: float = 0.0) -> OfCounts:
    """By Poisson distributions with such means, or negative binomial ones."""
    mean = np.maximum(mean, 1e-9)
    if dispersion > 0:
        log_p = log_mass(y, mean, np.full_like(mean, dispersion))
        size = 1 / dispersion
        cdf = lambda k: np.where(k < 0, 0.0, scipy.special.betainc(size, np.maximum(k, 0) + 1, size / (size + mean)))  # noqa: E731
    else:
        log_p = scipy.special.xlogy(y, mean) - mean - scipy.special.gammaln(y + 1)
        cdf = lambda k: np.where(k < 0, 0.0, scipy.special.pdtr(np.maximum(k, 0), mean))  # noqa: E731
    below, at = cdf(y - 1), cdf(y)
    return OfCounts(y - mean, log_p, None, np.maximum(np.maximum(2 * below - 1, 1 - 2 * at), 0), y, below, at)


def of_scikit_learn(make: Callable[[int], Any]) -> Callable[..., OfCounts]:
    def say(
        x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray, *, random_state: int, **_: Any
    ) -> OfCounts:
        return of_means(y_test, make(random_state).fit(x, y).predict(x_test))

    return say


def of_statsmodels(kind: str) -> Callable[..., OfCounts]:
    def say(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray, **_: Any) -> OfCounts:
        api = statsmodels()
        fitted = getattr(api, kind)(y, api.add_constant(x, has_constant="add")).fit(disp=0, maxiter=500)
        mean = np.asarray(fitted.predict(api.add_constant(x_test, has_constant="add")))
        return of_means(y_test, mean, float(fitted.params[-1]) if kind == "NegativeBinomial" else 0.0)

    return say


def of_probabilities(make: Callable[[int], Any]) -> Callable[..., OfRanks]:
    def say(
        x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray, *, random_state: int, **_: Any
    ) -> OfRanks:
        fitted = make(random_state).fit(x, y)
        return ranks(y_test, fitted.predict_proba(x_test), fitted.classes_, y)

    return say


def ordered_model(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray, **_: Any) -> OfRanks:
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    model = OrderedModel(y, x, distr="logit")
    fitted = model.fit(method="bfgs", disp=0, maxiter=1000)
    return ranks(y_test, np.asarray(model.predict(fitted.params, exog=x_test)), np.unique(y), y)


def ranks(y: np.ndarray, p: np.ndarray, known: np.ndarray, y_train: np.ndarray) -> OfRanks:
    """Of all classes, none of which has less than LEAST."""
    full = np.full((len(y), int(max(y.max(), y_train.max())) + 1), LEAST)
    full[:, known] = np.maximum(p, LEAST)
    return OfRanks(full / full.sum(axis=1, keepdims=True), y)


METHODS: dict[str, dict[str, Callable[..., Any]]] = {
    "counts": {
        "leadline poisson": ours_of_counts("poisson"),
        "leadline negative-binomial": ours_of_counts("negative-binomial"),
        "scikit-learn PoissonRegressor": of_scikit_learn(lambda _: PoissonRegressor(max_iter=1000)),
        "scikit-learn boosting (poisson)": of_scikit_learn(
            lambda seed: HistGradientBoostingRegressor(loss="poisson", random_state=seed)
        ),
        "statsmodels Poisson": of_statsmodels("Poisson"),
        "statsmodels NegativeBinomial": of_statsmodels("NegativeBinomial"),
    },
    "ranks": {
        "leadline ordinal": ours_of_ranks("ordinal"),
        "leadline categorical": ours_of_ranks("categorical"),
        "scikit-learn LogisticRegression": of_probabilities(lambda _: LogisticRegression(max_iter=2000)),
        "scikit-learn boosting": of_probabilities(lambda seed: HistGradientBoostingClassifier(random_state=seed)),
        "statsmodels OrderedModel": ordered_model,
    },
}
OURS = "leadline"
SHOWN = {"counts": ("nll", "deviance", "rmse", "coverage_90"), "ranks": ("nll", "accuracy", "ranks_away", "rps")}
COLUMNS = ("kind", "table", "method", "split", "n_train", "n_test", "seconds")


def done(path: Path) -> Iterator[dict[str, str]]:
    if path.exists():
        with path.open(newline="") as file:
            yield from csv.DictReader(file)


def run(arguments: argparse.Namespace) -> None:
    arguments.out.mkdir(parents=True, exist_ok=True)
    for kind, tables in TABLES[arguments.half].items():
        path = arguments.out / f"{kind}.csv"
        have = {(row["table"], row["method"], row["split"]) for row in done(path)}
        for seed in range(arguments.splits):
            for table, load in tables.items():
                for method, say in METHODS[kind].items():
                    chosen = arguments.only in f"{kind} {table} {method}"
                    if not chosen or (table, method, str(seed)) in have:
                        continue
                    rows = split(load(arguments.data), seed, kind)
                    how: dict[str, Any] = {"random_state": seed}
                    if method.startswith(OURS):
                        how |= {"n_restarts": arguments.restarts, "max_iter": arguments.epochs}
                    start = time.perf_counter()
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        said = say(*rows, **how)
                    seconds = time.perf_counter() - start
                    got = metrics.measured(said)
                    got["nll"] = got.get("nll", -got.get("ll_mixture", np.nan))
                    line = dict(zip(COLUMNS, (kind, table, method, seed, len(rows[0]), len(rows[2])), strict=False))
                    line |= {"seconds": round(seconds, 1)} | {name: f"{got[name]:.6g}" for name in SHOWN[kind]}
                    first = not path.exists()
                    with path.open("a", newline="") as file:
                        writer = csv.DictWriter(file, line.keys(), lineterminator="\n")
                        if first:
                            writer.writeheader()
                        writer.writerow(line)
                    print(*line.values(), flush=True)


def summary(out: Path) -> list[str]:
    """Means over the splits that all methods of a table have finished, with the standard deviation of the NLL's; the
    best of a table is bold. A method that has finished none is left out, and so is a table without ours."""
    lines = []
    for kind, shown in SHOWN.items():
        table = pd.DataFrame(list(done(out / f"{kind}.csv")))
        numbers = [*shown]
        table[numbers] = table[numbers].astype(float)
        lines += [f"| {kind} | method | splits | {' | '.join(shown)} |", "|" + " --- |" * (len(shown) + 3)]
        for name, rows in table.groupby("table", sort=False):
            common = set.intersection(*(set(one["split"]) for _, one in rows.groupby("method")))
            if not rows["method"].str.startswith(OURS).any() or not common:
                continue
            by_method = rows[rows["split"].isin(common)].groupby("method", sort=False)
            means, spread = by_method[numbers].mean(), by_method["nll"].std(ddof=1)
            for method in [one for one in METHODS[kind] if one in means.index]:
                row, scatter = means.loc[method], spread[method]
                cells = [f"{row['nll']:.3f}" + (f" ± {scatter:.3f}" if len(common) > 1 else "")]
                cells = [f"**{cells[0]}**"] if row["nll"] == means["nll"].min() else cells
                cells += [f"{row[one]:.3g}" for one in shown[1:]]
                lines.append(f"| {name} | {method} | {len(common)} | {' | '.join(cells)} |")
        lines.append("")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/likelihoods"))
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--half", choices=list(TABLES), default="report")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--restarts", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--only", default="", help="what the kind, the table and the method hold together")
    parser.add_argument("--summary", type=Path, help="print the table of what is there")
    arguments = parser.parse_args()
    if arguments.summary:
        print("\n".join(summary(arguments.summary)))
    else:
        run(arguments)


if __name__ == "__main__":
    main()
