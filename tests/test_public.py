"""What one sees who asks Python what there is."""

import inspect
import re
import subprocess
import sys

import pytest

import leadline
from leadline import DepthClassifier, DepthRegressor


def test_dir_shows_the_public_names_alone():
    """In a fresh process too, where nothing of them is imported yet, and after all of them are."""
    names = dir(leadline)
    assert all(getattr(leadline, name) is not None for name in names)
    assert dir(leadline) == names
    assert not [name for name in names if name.startswith("_") and name != "__version__"]
    assert {name for name in names if inspect.ismodule(getattr(leadline, name))} == {"callbacks", "datasets", "metrics"}
    assert {"DepthClassifier", "load", "Progress", "train", "__version__"} <= set(names)
    fresh = subprocess.run(
        [sys.executable, "-c", "import leadline; print(dir(leadline)); leadline.callbacks.JsonLines"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert fresh.stdout.strip() == str(names)


@pytest.mark.parametrize("kind", [DepthClassifier, DepthRegressor])
def test_help_explains_every_parameter(kind):
    said = inspect.getdoc(kind)
    assert said is not None
    assert "{" not in said
    parameters = said.partition("Parameters\n----------\n")[2].partition("Attributes\n----------\n")[0]
    explained = dict(re.findall(r"^(\w+) : (.*(?:\n .*)*)", parameters, re.M))
    assert set(explained) == set(kind().get_params())
    for name, words in explained.items():
        assert len(words.split()) >= 3, name


@pytest.mark.parametrize("kind", [DepthClassifier, DepthRegressor])
def test_what_a_fitted_one_has_is_explained(kind):
    est = kind(width=2, n_restarts=1, max_iter=2, random_state=0).fit([[float(i)] for i in range(12)], [0, 1] * 6)
    said = inspect.getdoc(DepthClassifier) + inspect.getdoc(kind)
    learned = {name for name in vars(est) if name.endswith("_") and not name.startswith("_")}
    own = {"model_", "seed_", "x_mean_", "x_scale_", "y_mean_", "y_scale_", "cut_off_", "target_name_"}
    assert [name for name in learned - own if name not in said] == []
