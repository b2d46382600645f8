"""For mkdocstrings, which reads the source: what is known only once it has run.

And the estimators' docstrings, whose sections are scikit-learn's, in the style of all others.
"""

import inspect
import re
from typing import Any

import griffe

SECTION = re.compile(r"^(Parameters|Attributes|Examples)\n-+\n((?:(?!^\w+\n-+$).*\n?)*)", re.MULTILINE)
ENTRY = re.compile(r"^(\w[\w, ]*) : ", re.MULTILINE)


def as_others_are(docstring: str) -> str:
    """With the sections that all other docstrings have, instead of `name : what it is` under a ruled heading."""

    def rewritten(section: re.Match[str]) -> str:
        title, body = section.groups()
        if title == "Attributes":  # a list: for a section of them, all must be attributes in the source
            entries = re.sub(r"\n +", " ", ENTRY.sub(lambda one: f"- **`{one[1]}`** – ", body.strip("\n")))
            return f"**Attributes once it is fitted:**\n\n{entries}\n\n"
        lines = ENTRY.sub(r"\1: ", body.strip("\n")).splitlines()
        return "\n".join([f"{title}:", *(f"    {line}".rstrip() for line in lines), "", ""])

    return SECTION.sub(rewritten, docstring)


class AtRunTime(griffe.Extension):
    """Classes whose docstring and arguments are made from the options of `Settings`."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Take them from the class itself where its docstring has a gap."""
        docstring = cls.docstring
        if docstring is None:
            return
        if any(gap in docstring.value for gap in ("{options}", "{inherited}")):
            kind = griffe.dynamic_import(cls.path)
            docstring.value = inspect.cleandoc(kind.__doc__)
            arguments = [
                griffe.Parameter(one.name, kind=griffe.ParameterKind.keyword_only, default=repr(one.default))
                for one in inspect.signature(kind).parameters.values()
            ]
            first = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
            cls.set_member("__init__", griffe.Function("__init__", parameters=griffe.Parameters(first, *arguments)))
        docstring.value = as_others_are(docstring.value)
