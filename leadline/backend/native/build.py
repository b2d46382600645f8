"""Builds the engine with whatever C++ compiler there is: once for every kind of CPU.

    python -m leadline.backend.native.build

`pip install` runs this too. Without a compiler nothing is built, and everything works through JAX alone, more slowly.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FLAGS = "-std=c++17 -O3 -fopenmp-simd -fno-math-errno -fno-trapping-math -fPIC -shared -pthread -Wno-psabi"
LEVELS = (
    {0: "", 1: "-mavx2 -mfma", 2: "-mavx2 -mfma -mavx512f -mavx512dq -mavx512vl -mprefer-vector-width=512"}
    if platform.machine().lower() in ("x86_64", "amd64")
    else {0: ""}
)
"""What every build may use of the CPU; `leadline_level` of the plain one says which the machine can run."""


def library(level: int) -> Path:
    """Where the build of a level is."""
    return HERE / f"engine{level}.so"


def source() -> str:
    """A name for what the engine is made of: a build from other sources is not used."""
    parts = sorted((*HERE.glob("*.h"), *HERE.glob("*.cpp"), Path(__file__)))
    return hashlib.sha256(b"".join(path.read_bytes() for path in parts)).hexdigest()[:16]


def build() -> list[Path]:
    """Build all levels; those that were built."""
    compiler = os.environ.get("CXX") or next(filter(shutil.which, ("c++", "g++", "clang++")), None)
    if compiler is None:
        raise RuntimeError("there is no C++ compiler (CXX, c++, g++ or clang++)")
    built = []
    for level, flags in LEVELS.items():
        part = library(level).with_suffix(f".{os.getpid()}")
        command = [*compiler.split(), *FLAGS.split(), *flags.split(), f'-DSOURCE="{source()}"']
        command += [str(HERE / "engine.cpp"), "-o", str(part)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            part.replace(library(level))
            built.append(library(level))
        elif level == 0:  # a compiler that does not know the others builds the plain one
            raise RuntimeError(f"{compiler} failed: {done.stderr.strip()[-200:]}")
    return built


if __name__ == "__main__":
    try:
        print(*build(), sep="\n")
    except (RuntimeError, OSError) as error:
        sys.exit(f"The engine was not built: {error}.")
