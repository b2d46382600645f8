"""What is public is explained: what it is, every argument by its name, what it gives back, and an example that runs."""

import ast
import doctest
import inspect
import itertools
import re
import textwrap

import pytest

import leadline
from leadline.likelihoods import LIKELIHOODS

NAMES = [name for name in leadline.__all__ if name != "__version__"]
CLASSES = [name for name in NAMES if inspect.isclass(getattr(leadline, name))]
FUNCTIONS = [name for name in NAMES if inspect.isfunction(getattr(leadline, name))]
VALUES = [name for name in NAMES if name not in CLASSES + FUNCTIONS]

SLOW = {"Comparison", "Pruning", "compare", "free_energy", "prune"}
"""Their examples take seconds."""


def explained(docstring):
    """The names that a docstring has something to say of, among its arguments."""
    docstring = inspect.cleandoc(docstring or "")
    google = re.search(r"^Args:\n((?:    .*\n?|\n)*)", docstring, re.MULTILINE)
    numpy = re.search(r"^Parameters\n-+\n((?:(?!\w+\n-+$).*\n?)*)", docstring, re.MULTILINE)
    entries = re.findall(r"^    (\w+): \S", google[1], re.MULTILINE) if google else []
    return {*entries, *(re.findall(r"^(\w+) : \S", numpy[1], re.MULTILINE) if numpy else [])}


def of_fields(kind):
    """The fields of a class that a string below them explains."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body
    return {
        one.target.id
        for one, below in itertools.pairwise(body)
        if isinstance(one, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    }


def parameters(thing):
    """Their names, without `self`, and without what is taken by whatever name."""
    try:
        signature = inspect.signature(thing)
    except ValueError:  # a warning, written in C
        return set()
    of_any_name = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {name for name, one in signature.parameters.items() if one.kind not in of_any_name} - {"self"}


def methods():
    """Those of public classes, where they are defined: a public name of each, its class, and what it overrides."""
    found = {}
    for name in CLASSES:
        kind = getattr(leadline, name)
        for member, value in inspect.getmembers(kind):
            above = [one for one in kind.__mro__ if member in vars(one) and one.__module__.startswith("leadline")]
            is_code = isinstance(value, property) or inspect.isroutine(value) or hasattr(value, "__wrapped__")
            if above and is_code and not member.startswith("_"):
                found.setdefault(f"{above[0].__qualname__}.{member}", (value, [vars(one)[member] for one in above]))
    return found


METHODS = methods()


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_explained(name):
    thing = getattr(leadline, name)
    said = thing.__doc__ if name in CLASSES + FUNCTIONS else documented_value(name)
    assert said, "has no docstring"
    assert re.search("^ *>>> ", said, re.MULTILINE), "has no example"
    if name in FUNCTIONS:
        assert re.search("^ *Returns:\n", said, re.MULTILINE), "does not say what it returns"
    fields = of_fields(thing) if name in CLASSES else set()
    wanted = set() if name in VALUES else parameters(thing)
    of_constructor = explained(thing.__init__.__doc__) if name in CLASSES else set()
    assert wanted - explained(said) - of_constructor - fields == set(), "says nothing of these"


@pytest.mark.parametrize("name", METHODS)
def test_a_public_method_is_explained(name):
    """By its own docstring, or by that of the method that it overrides."""
    value, overridden = METHODS[name]
    said = [getattr(one, "__doc__", None) for one in (value, *overridden)]
    assert any(said), "has no docstring"
    wanted = set() if isinstance(value, property) else parameters(value)
    assert wanted - set().union(*map(explained, said)) == set(), "says nothing of these"


def documented_value(name):
    """The string below a value of a module."""
    place = leadline._PLACE_OF[name]
    body = ast.parse(inspect.getsource(__import__(f"leadline.{place}", fromlist=[name]))).body
    for one, below in itertools.pairwise(body):
        targets = one.targets if isinstance(one, ast.Assign) else [getattr(one, "target", None)]
        if any(getattr(target, "id", None) == name for target in targets) and isinstance(below, ast.Expr):
            return ast.literal_eval(below.value)
    return None


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in NAMES])
def test_its_example_runs(name, tmp_path, monkeypatch, as_users_have_it):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(LIKELIHOODS, "data", dict(LIKELIHOODS))  # what an example registers is forgotten
    said = inspect.cleandoc(getattr(leadline, name).__doc__ if name in CLASSES + FUNCTIONS else documented_value(name))
    test = doctest.DocTestParser().get_doctest(said, {}, name, None, 0)
    report = []
    outcome = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=report.append)
    assert outcome.failed == 0, "".join(report)
