"""scikit-learn's own checks, all of them, on both estimators; none is expected to fail.

Small networks and few epochs: the checks are of the contract, and nearly all of their time is compilation.
"""

import warnings

import pytest
from sklearn.exceptions import SkipTestWarning
from sklearn.utils.estimator_checks import check_estimator

from leadline import DepthClassifier, DepthRegressor
from leadline._checks import DataWarning

SMALL = {"width": 8, "n_restarts": 2, "max_iter": 200}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DepthClassifier, DepthRegressor])
def test_check_estimator(kind, as_users_have_it):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)  # the array API is not asked for
        warnings.simplefilter("ignore", DataWarning)  # some tables have few rows
        results = check_estimator(kind(**SMALL))
    status = [result["status"] for result in results]
    assert set(status) <= {"passed", "skipped"}
    assert status.count("passed") > 40
