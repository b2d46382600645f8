"""Two versions of a part of one's own are two trainings: neither goes on from the other's checkpoints."""

import json
import os
import subprocess
import sys

PARTS = """
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp

import leadline
from leadline.network.blocks import Dense

LAST = 5  # the deepest

def tail(depth, logit):
    return depth * jax.nn.log_sigmoid(logit)

@leadline.register(name="geometric")
class GeometricDepth(leadline.DepthDistribution):
    logit: jax.Array

    @classmethod
    def pair(cls, start):
        return cls(jnp.array(0.0, float)), cls(jnp.array(1.0, float))

    def log_masses(self, n_depths):
        depth = jnp.arange(n_depths)
        log_masses = jnp.where(depth <= LAST, tail(depth, self.logit), -jnp.inf)
        return log_masses - jax.nn.logsumexp(log_masses)

class MoreDepth(GeometricDepth):
    pass

class Softer(leadline.CategoricalLikelihood):
    def log_prob(self, output, y):
        return super().log_prob(output / 2.0, y)

@leadline.register(name="skipping")
class Skipping(Dense):
    def step(self, state, *, key, draw):
        further = super().step(state, key=key, draw=draw)
        return further if state.shape != further.shape else state + 1.0 * further

@dataclass(frozen=True)
class Slower(leadline.Recipe):
    def rate_factor(self, share):
        return 0.5 * super().rate_factor(share)
"""

EDITS = {
    "comment": ("# the deepest", "# the deepest that there is"),
    "family": ("jnp.where(depth <= LAST", "jnp.where(depth < LAST"),
    "helper": ("depth * jax.nn.log_sigmoid(logit)", "depth * jax.nn.log_sigmoid(2.0 * logit)"),
    "number": ("LAST = 5", "LAST = 6"),
    "likelihood": ("output / 2.0", "output / 4.0"),
    "block": ("state + 1.0 * further", "state + 0.5 * further"),
    "recipe": ("return 0.5 *", "return 0.25 *"),
}

ASK = """if True:
    import dataclasses, importlib, json, sys
    import numpy as np
    import leadline
    rows = (np.zeros((4, 2)), np.zeros(4, int))
    usual = leadline.RECIPES["leadline"]
    named = {one.name: getattr(usual, one.name) for one in dataclasses.fields(usual)} | {"name": "slower"}
    said = {}
    for version in json.loads(sys.argv[1]):
        sys.path.insert(0, version)
        sys.modules.pop("parts", None)
        importlib.invalidate_caches()
        import parts
        assert parts.__file__.startswith(version)
        sys.path.remove(version)
        prior, posterior = parts.GeometricDepth.pair(None)
        settings = {
            "by name": {"depth": "geometric"},
            "a pair": {"depth": (prior, posterior)},
            "a subclass": {"depth": (prior, parts.MoreDepth(posterior.logit))},
            "likelihood": {},
            "block": {"block": "skipping"},
            "recipe": {"recipe": parts.Slower(**named)},
            "none": {},
        }
        likelihood = leadline.CategoricalLikelihood(2)
        said[version] = {
            name: leadline.Settings(**given).identity(
                leadline.Problem(rows, rows, parts.Softer(2) if name == "likelihood" else likelihood)
            )
            for name, given in settings.items()
        }
    print(json.dumps(said))
"""


def test_an_edited_part_is_another_training_and_a_comment_is_not(tmp_path):
    """By the compiled code, that of what a part uses of its module included; in real processes, in each of which text
    has other hashes."""
    folders = {}
    for name, (before, after) in {"as it was": ("", ""), **EDITS}.items():
        assert before in PARTS
        folders[name] = tmp_path / name
        folders[name].mkdir()
        (folders[name] / "parts.py").write_text(PARTS.replace(before, after, 1))
    answers = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", ASK, json.dumps([str(folder) for folder in folders.values()])],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        answers.append(json.loads(done.stdout))
    assert answers[0] == answers[1]
    said = {name: answers[0][str(folder)] for name, folder in folders.items()}
    before = said.pop("as it was")
    assert len(set(before.values())) == len(before)
    changed = {name: {part for part in before if one[part] != before[part]} for name, one in said.items()}
    families = {"by name", "a pair", "a subclass"}
    assert changed == {
        "comment": set(),
        **dict.fromkeys(("family", "helper", "number"), families),
        **{name: {name} for name in ("likelihood", "block", "recipe")},
    }
