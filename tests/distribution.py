"""What would be uploaded is built, and tried where there is nothing but Python: `make dist`.

    python -m tests.distribution --out dist

A source archive and, from it, a wheel with the engine; both looked into, the wheel installed into an empty environment
in which no compiler and no `make` can be found, and used there from the command line and in Python. Needs the extra
`release`, and an index to install from. With `--python`, the wheel is tried with other interpreters, too.
"""

import argparse
import email
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]

PYTHON = """
import leadline, numpy as np
from leadline.backend.native.library import engine
assert engine() is not None, "the engine of the wheel is not used"
names = [getattr(leadline, name) for name in dir(leadline)]
x = np.linspace(-1, 1, 40)[:, None]
clf = leadline.DepthClassifier(n_restarts=3, random_state=0).fit(x, x[:, 0] > 0)
assert clf.score(x, x[:, 0] > 0) > 0.9
print("leadline", leadline.__version__, "imports", len(names), "public names, and fits")
"""
"""Run in the environment with warnings as errors."""

COMMANDS = [
    "leadline --version",
    "leadline spiral --omega 3 --epochs 100 --width 8 --out spiral --quiet",
    "leadline fit table.csv --target y --epochs 50 --width 4 --restarts 1 --out fitted",
    "leadline predict fitted table.csv --out predicted.csv",
    "leadline report fitted",
]


def run(*command: object, cwd: Path | None = None, path: str | None = None) -> str:
    """What a command prints; one that fails ends all."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "CXX")}
    environment |= {"PATH": path} if path is not None else {}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def build(out: Path) -> tuple[Path, Path]:
    """The source archive, and a wheel that is made of it."""
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
        [archive], [wheel] = Path(folder).glob("*.tar.gz"), Path(folder).glob("*.whl")
        out.mkdir(parents=True, exist_ok=True)
        for old in out.glob("leadline-*"):
            old.unlink()
        if sys.platform == "linux":  # says on which systems the engine runs
            tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
            run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", folder, wheel, path=tools)
            wheel.unlink()
            [wheel] = Path(folder).glob("*.whl")
        return Path(shutil.copy(archive, out)), Path(shutil.copy(wheel, out))


def check_archive(archive: Path) -> None:
    """Sources alone, and all that a build needs."""
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert not [name for name in names if name.endswith((".so", ".pyc")) or name.startswith("site/")]
    needed = {"LICENSE", "README.md", "CITATION.cff", "Makefile", "hatch_build.py", "pyproject.toml", "mkdocs.yml"}
    needed |= {"leadline/backend/native/engine.cpp", "tests/conftest.py", "docs/index.md", "constraints/lowest.txt"}
    assert needed <= names, needed - names


def check_wheel(wheel: Path) -> None:
    """The package, its engine, its licence, and nothing else; for any Python 3 on such machines."""
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        [place] = [name for name in names if name.endswith(".dist-info/METADATA")]
        about = email.message_from_bytes(file.read(place))
    tag = wheel.stem.split("-", 2)[2]
    assert tag.startswith("py3-none-"), tag
    assert not tag.endswith("-any"), "there is no engine in it: was there a compiler?"
    assert {name.partition("/")[0] for name in names} == {"leadline", place.partition("/")[0]}
    assert "leadline/backend/native/engine0.so" in names
    assert f"{place.partition('/')[0]}/licenses/LICENSE" in names
    assert about["License-Expression"] == "MIT"
    assert f"-{about['Version']}-" in wheel.name
    assert f'"{about["Version"]}"' in (ROOT / "leadline" / "_version.py").read_text()


def try_wheel(wheel: Path, python: str) -> str:
    """In an environment of its own, where nothing else can be found."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        run(python, "-m", "venv", home / "venv")
        alone = str(home / "venv" / "bin")
        run(f"{alone}/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, path=alone)
        assert not any(shutil.which(tool, path=alone) for tool in ("make", "c++", "g++", "clang++"))
        run(f"{alone}/python", "-m", "pip", "check", path=alone)
        rows = [f"{i % 17},{(i * 7) % 11},{'yes' if i % 17 > 8 else 'no'}" for i in range(120)]
        (home / "table.csv").write_text("\n".join(["a,b,y", *rows, ""]))
        said = run(f"{alone}/python", "-W", "error", "-c", PYTHON, cwd=home, path=alone)
        for command in COMMANDS:
            name, *arguments = command.split()
            run(f"{alone}/{name}", *arguments, cwd=home, path=alone)
        for written in ("spiral/record.json", "fitted/record.json", "predicted.csv"):
            assert (home / written).stat().st_size > 0, written
        return said.strip()


def try_archive(archive: Path) -> None:
    """Where there is no compiler, it becomes a wheel without the engine, for every machine."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        run(sys.executable, "-m", "venv", home / "venv")
        alone = str(home / "venv" / "bin")
        quiet = ("--quiet", "--disable-pip-version-check", "--no-deps")
        run(f"{alone}/python", "-m", "pip", "wheel", *quiet, "--wheel-dir", home, archive, path=alone)
        [wheel] = home.glob("*.whl")
        assert wheel.name.endswith("-py3-none-any.whl"), wheel.name
        with zipfile.ZipFile(wheel) as file:
            assert not [name for name in file.namelist() if name.endswith(".so")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("dist"))
    parser.add_argument("--python", nargs="*", default=[sys.executable], help="interpreters to try the wheel with")
    arguments = parser.parse_args()
    archive, wheel = build(arguments.out)
    check_archive(archive)
    check_wheel(wheel)
    run(sys.executable, "-m", "twine", "check", "--strict", archive, wheel)
    try_archive(archive)
    for python in arguments.python:
        print(f"{python}: {try_wheel(wheel, python)}")
    for one in (archive, wheel):
        print(f"{one}: {one.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
