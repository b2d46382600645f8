"""Parts of one's own by their names: registered here, or by a plugin, in real processes."""

import json
import os
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import leadline
from leadline import DepthDistribution, InvalidArgumentError, NormalDepth, Settings, register
from leadline._registry import Registry
from leadline.depth import FAMILIES
from leadline.files.models import describe, rebuild
from leadline.likelihoods import LIKELIHOODS, CategoricalLikelihood, GaussianLikelihood
from leadline.network.blocks import BLOCKS, Dense
from tests.test_seams import BLOCK, COMMANDS, COUNTS, FAMILY


@pytest.fixture(autouse=True)
def _what_is_registered_here_goes_again():
    registries = FAMILIES, LIKELIHOODS, BLOCKS
    before = [dict(one.data) for one in registries]
    yield
    for one, names in zip(registries, before, strict=True):
        one.data = names


class BinomialDepth(DepthDistribution):
    """With a parameter of every kind that a model file holds."""

    logit: jax.Array
    last: int = eqx.field(static=True, default=4)
    share: float = eqx.field(static=True, default=0.25)
    why: str | None = eqx.field(static=True, default=None)
    words: tuple = eqx.field(static=True, default=("a", 1, 0.5, None, True))
    place: np.ndarray = eqx.field(default_factory=lambda: np.arange(6, dtype=np.int32).reshape(2, 3))

    @classmethod
    def pair(cls, start):
        return cls(jnp.array(0.0, float)), cls(jnp.array(start.loc, float))

    def log_masses(self, n_depths):
        depth = jnp.arange(n_depths)
        log_masses = jnp.where(depth <= self.last, depth * jax.nn.log_sigmoid(self.logit), -jnp.inf)
        return log_masses - jax.nn.logsumexp(log_masses)


def another(base=BinomialDepth, **body):
    """A class of its own, defined elsewhere."""
    return type("Another", (base,), {"__module__": "elsewhere", **body})


def test_what_is_registered_is_known_by_its_name():
    assert register(BinomialDepth, name="binomial") is BinomialDepth
    prior, posterior = leadline.inference.recipes.depth_distributions("binomial", leadline.RECIPES["leadline"])
    assert type(prior) is type(posterior) is BinomialDepth
    assert float(posterior.logit) == 1.0  # of the recipe's start
    assert BinomialDepth.name == "binomial"
    with pytest.raises(InvalidArgumentError, match=r"`depth` must be one of normal, .*, binomial, a whole number"):
        Settings(depth="binomal").resolved(CategoricalLikelihood(2))

    @register(name="softest")
    class Softest(GaussianLikelihood): ...

    @register
    class Skipping(Dense):
        name = "other"

    assert (LIKELIHOODS["softest"], BLOCKS["other"]) == (Softest, Skipping)


@pytest.mark.parametrize("registry", [FAMILIES, LIKELIHOODS, BLOCKS], ids=lambda one: one.what)
def test_the_names_are_those_of_leadline_and_what_is_registered(registry):
    assert isinstance(registry, Registry)
    assert list(registry) == registry.own() == list(registry.data)
    assert all(registry[name].name == name and registry[name].registry is registry for name in registry)


def test_a_class_that_is_defined_again_takes_the_place_of_the_one_before():
    """As a cell of a notebook is run again."""
    first, second = another(), another()
    register(first, name="mine")
    assert FAMILIES["mine"] is first
    register(second, name="mine")
    assert FAMILIES["mine"] is second


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize(
    ("given", "name", "message"),
    [
        (
            another(),
            "normal",
            "`name` must be free, and 'normal' is the depth family leadline.depth.normal.N",
        ),
        (another(Dense), "dense", "`name` must be free, and 'dense' is the block leadline.network.blocks.dense.Dense "),
        (another(GaussianLikelihood), "auto", "`name` must be free, and 'auto' is the likelihood leadline."),
        (another(), "taken", "`name` must be free, and 'taken' is the depth family tests.test_registry.BinomialDepth"),
        (another(), "two words", "`name` must be a word of letters, digits, dots, dashes and underscores that begins"),
        (another(), "3", "`name` must be a word"),
        (another(), None, "`name` must be a word .* got None for Another."),
        (int, "whole", "`cls` must be a subclass of DepthDistribution, Likelihood or Block, got <class 'int'>."),
        (NormalDepth(), "one", "`cls` must be a subclass of DepthDistribution, Likelihood or Block, got NormalDepth"),
        (DepthDistribution, "any", "`cls` must be a whole depth family, and DepthDistribution lacks log_masses."),
        (BinomialDepth, "second", "`name` must be one alone; BinomialDepth is registered as 'taken' already."),
    ],
    ids=lambda one: one if isinstance(one, str) else None,
)
def test_what_cannot_be_registered_is_one_sentence(given, name, message):
    register(BinomialDepth, name="taken")
    before = dict(FAMILIES.data)
    with pytest.raises(InvalidArgumentError, match=f"^{message}"):
        register(given, name=name)
    assert FAMILIES.data == before


def test_a_family_without_a_pair_is_one_sentence():
    class Lonely(BinomialDepth):
        @classmethod
        def pair(cls, start):
            return super(BinomialDepth, cls).pair(start)

    register(Lonely, name="lonely")
    with pytest.raises(InvalidArgumentError, match=r"`depth` must be a pair of Lonely, .* a class method `pair"):
        Settings(depth="lonely").resolved(CategoricalLikelihood(2))


# In model files


def test_a_registered_family_comes_back_with_all_its_parameters():
    register(BinomialDepth, name="binomial")
    family = BinomialDepth(jnp.array([0.5, 1.5]), 6, 0.125, "so", ("b", 2))
    tensors = {}
    described = json.loads(json.dumps(describe(family, "model.depth_posterior", tensors)))
    assert described["module"] == "depth family binomial"  # wherever it is defined
    assert sorted(tensors) == ["model.depth_posterior.logit", "model.depth_posterior.place"]
    back = rebuild(described, tensors)
    assert type(back) is BinomialDepth
    assert jax.tree.structure(back) == jax.tree.structure(family)
    assert (back.last, back.share, back.why, back.words) == (6, 0.125, "so", ("b", 2))
    for a, b in zip(jax.tree.leaves(back), jax.tree.leaves(family), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    elsewhere = another()
    FAMILIES.data["binomial"] = elsewhere
    assert type(rebuild(described, tensors)) is elsewhere


@pytest.mark.usefixtures("as_users_have_it")
def test_what_a_file_cannot_hold_or_does_not_find_is_one_sentence():
    def said(function, *given):
        with pytest.raises(InvalidArgumentError) as error:
            function(*given)
        return str(error.value)

    family = BinomialDepth(jnp.array(0.5))
    assert said(describe, family, "model.depth_posterior", {}) == (
        "`model.depth_posterior` is a BinomialDepth, which a model file holds only where it is registered: call "
        "`leadline.register(BinomialDepth, name=...)`, or pickle the estimator instead."
    )
    register(BinomialDepth, name="binomial")
    assert said(describe, BinomialDepth(jnp.array(0.5), words=(len,)), "parameters.prior", {}) == (
        "`parameters.prior.words` is a tuple, and a model file holds numbers, text, arrays and tuples of numbers or "
        "text alone."
    )
    tensors = {}
    described = describe(family, "m", tensors)
    FAMILIES.data["binomial"] = another(NormalDepth)
    assert said(rebuild, described, tensors) == (
        "`path`: the file has the depth family binomial with the fields last, logit, place, share, why, words, and "
        "Another, which is registered so, has bounds, loc, lower_quantile, raw_scale, upper_quantile; register the "
        "class that was saved."
    )
    del FAMILIES.data["binomial"]
    assert said(rebuild, described, tensors) == (
        "`path`: the file holds the depth family 'binomial', which is not registered; import what registers it, or "
        "call `leadline.register` with its class and the name 'binomial'."
    )


# Plugins

PLUGIN = f"""
{FAMILY}
{COUNTS}
{BLOCK.replace("state + further", "0.5 * (state + further)")}
import leadline

for part in (GeometricDepth, PoissonLikelihood, Skipping):
    leadline.register(part)
"""


def install(folder, package, text):
    """As an installer leaves a package that has a plugin."""
    (folder / f"{package}.py").write_text(text)
    about = folder / f"{package}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[leadline.plugins]\n{package} = {package}\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With a package that has a plugin, another whose plugin does not work, and a table."""
    folder = tmp_path_factory.mktemp("plugins")
    for name in ("works", "broken"):
        (folder / name).mkdir()
    install(folder / "works", "sounding", PLUGIN)
    install(folder / "broken", "aground", "import no_such_library")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    counts = rng.poisson(np.exp(1 + x[:, 0]))
    rows = "".join(f"{a},{b},{n}\n" for (a, b), n in zip(x, counts, strict=True))
    (folder / "table.csv").write_text("a,b,count\n" + rows)
    return folder


def python(folder, code, *arguments, plugins=("works", "broken")):
    """A process that finds these packages: its answer, and what it says of errors."""
    path = os.pathsep.join([*(str(folder / one) for one in plugins), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


LOAD = """if True:
    import sys
    import numpy as np
    import leadline
    assert not {"sounding", "jax"} & set(sys.modules)  # nobody has asked for a name yet
    reg = leadline.load("fitted")
    assert "sounding" in sys.modules
    parts = reg.model_.depth_prior, reg.model_.depth_posterior, reg.model_.likelihood, reg.model_.network.deeper
    print([type(part).__name__ for part in parts], (reg.depth, reg.likelihood, reg.block))
    print(reg.depth_pmf_.tolist())
    reg.save("again")
"""


def test_a_plugin_brings_a_family_a_likelihood_and_a_block(folder):
    """Fitted and compared by name on the command line, and loaded in a new process, to the same bytes. A plugin that
    does not work is a sentence."""
    named = ("--depth", "geometric", "--likelihood", "counts", "--block", "skipping", "--task", "regression")
    small = ("--target", "count", "--width", 4, "--restarts", 1, "--epochs", 3, "--test", 0.25, "--quiet")
    fit = ("fit", "table.csv", *named, *small, "--out", "fitted")
    compare = ("compare", "table.csv", *named, *small, "--against", "none", "--out", "compared")
    _, err = python(folder, COMMANDS, json.dumps([[*map(str, command)] for command in (fit, compare)]))
    assert err == (
        "leadline: note: the plugin aground (aground) cannot be imported, and what it registers is missing: "
        "ModuleNotFoundError: No module named 'no_such_library'.\n"
    )
    record = json.loads((folder / "fitted" / "record.json").read_text())
    assert (record["depth"], record["block"], record["settings"]["likelihood"]) == ("geometric", "skipping", "counts")
    [row] = json.loads((folder / "compared" / "compared.json").read_text())["candidates"]
    assert row["candidate"] == "leadline geometric"
    assert "likelihood='counts'" in row["settings"]
    assert row["depth_mean"] == pytest.approx(record["depth_mean"])
    said, err = python(folder, LOAD, plugins=("works",))
    kinds, pmf = said.splitlines()
    names = "('geometric', 'counts', 'skipping')"
    assert kinds == f"['GeometricDepth', 'GeometricDepth', 'PoissonLikelihood', 'Skipping'] {names}"
    assert json.loads(pmf) == record["depth_pmf"]
    assert err == ""
    assert (folder / "again").read_bytes() == (folder / "fitted" / "model.safetensors").read_bytes()
    with pytest.raises(InvalidArgumentError) as error:
        leadline.load(folder / "fitted")  # here, where there is no plugin
    assert str(error.value) == (
        "`path`: the file holds the block 'skipping', which is not registered; import what registers it, or call "
        "`leadline.register` with its class and the name 'skipping'."
    )
