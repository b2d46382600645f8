"""scikit-learn's searches over an estimator, in turn and by processes of a joblib backend; what came of them as JSON.

python -m tests.estimators.searches BACKEND: loky, dask or ray.
"""

import json
import os
import sys
from contextlib import ExitStack

import joblib
from sklearn.datasets import load_iris
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, cross_val_score

from leadline import DepthClassifier
from leadline.backend.device import n_cores, n_threads

N_JOBS = 2
SMALL = {"recipe": "leadline", "n_restarts": 2, "width": 4, "max_iter": 3, "early_stopping": False, "random_state": 0}


def searched():
    """The scores of all candidates, and who is best."""
    x, y = load_iris(return_X_y=True)
    model, grid = DepthClassifier(**SMALL), {"width": [2, 4], "learning_rate_init": [0.005, 0.02]}
    found = {"cross_val_score": cross_val_score(model, x, y, cv=3).tolist()}
    for search in (
        GridSearchCV(model, grid, cv=3),
        HalvingGridSearchCV(model, grid, cv=3, random_state=0, min_resources=60),
    ):
        search.fit(x, y)
        scores = search.cv_results_["mean_test_score"].tolist()
        found[type(search).__name__] = [scores, search.best_params_, search.predict_proba(x[::25]).tolist()]
    return found


def processes(backend, stack):
    """What begins those of a backend, if anything does, and what they are for joblib."""
    if backend == "dask":
        from distributed import Client, LocalCluster

        cluster = stack.enter_context(LocalCluster(n_workers=N_JOBS, threads_per_worker=1, dashboard_address=None))
        stack.enter_context(Client(cluster))
    elif backend == "ray":
        os.environ["RAY_worker_niceness"] = "0"  # as all others have it  # noqa: SIM112
        import ray
        from ray.util.joblib import register_ray

        ray.init(num_cpus=N_JOBS, include_dashboard=False, log_to_driver=False)
        stack.callback(ray.shutdown)
        register_ray()
    return joblib.parallel_config(backend=backend, n_jobs=N_JOBS)


def main(backend):
    with ExitStack() as stack:
        said = {"cores": n_cores(), "in turn": searched()}
        with processes(backend, stack):
            said["by processes"] = searched()
            said["threads"] = joblib.Parallel()(joblib.delayed(n_threads)() for _ in range(2 * N_JOBS))
    print(json.dumps(said))


if __name__ == "__main__":
    main(*sys.argv[1:])
