"""A file with more in it than there is memory for is one sentence, in a process that may have little of it."""

import gzip
import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leadline.files import models as modelfile

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says how much is mapped")

WITH_LITTLE = """
import json, resource, sys
import pandas, pyarrow.parquet
from leadline.cli import main, spirals, tables
from leadline.estimators import loading
from leadline.studies import tables as studies
more, sys.argv = int(sys.argv[1]), ["leadline", *json.loads(sys.argv[2])]
mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + more, resource.RLIM_INFINITY))
main()
"""


def with_little(more, *arguments):
    """The command line, with so many bytes more than what is imported needs."""
    given = [sys.executable, "-c", WITH_LITTLE, str(more), json.dumps([*map(str, arguments)])]
    environment = {**os.environ, "RUST_BACKTRACE": "0"}
    return subprocess.run(given, capture_output=True, text=True, timeout=60, env=environment)


def packed(path, *parts):
    with gzip.open(path, "wb", compresslevel=1) as file:
        for part in parts:
            file.write(part)
    return path


def many_rows(path):
    block = b"1.5,2.5,x\n0.5,1.5,y\n" * 50_000
    return packed(path.with_suffix(".csv.gz"), b"a,b,y\n", *[block] * 30)


def a_large_cell(path):
    return packed(path.with_suffix(".csv.gz"), b"a,y\n1,x\n", *[b"a" * 10**6] * 200, b",y\n")


def many_equal_rows(path):
    path = path.with_suffix(".parquet")
    column = pa.DictionaryArray.from_arrays(np.tile(np.array([0, 1], np.int32), 10_000_000), [1.5, 2.5])
    pq.write_table(pa.table({"a": column, "y": column}), path)
    return path


def a_large_equal_cell(path):
    path = path.with_suffix(".parquet")
    pq.write_table(pa.table({"a": ["a" * 300_000_000, "b"], "y": [1, 2]}), path, compression="zstd")
    return path


@pytest.mark.parametrize("make", [many_rows, a_large_cell, many_equal_rows, a_large_equal_cell])
def test_a_table_that_is_larger_inside_is_one_sentence(tmp_path, make):
    path = make(tmp_path / "table")
    assert path.stat().st_size < 4_000_000
    done = with_little(250_000_000, "fit", path, "--target", "y", "--out", tmp_path / "run", "--quiet")
    assert done.returncode == 2, done.stderr
    assert done.stderr == f"leadline: `{path}` holds more than there is memory for; take fewer rows or columns.\n"
    assert not (tmp_path / "run").exists()


def test_a_model_file_that_does_not_fit_is_one_sentence(tmp_path):
    """Where there is no memory for its tensors, their reader panics in Rust, with what is no `Exception`."""
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{i},{i % 2}\n" for i in range(20)))
    arguments = ("fit", tmp_path / "a.csv", "--target", "y", "--out", tmp_path / "run", "--epochs", 1)
    assert with_little(10**12, *arguments, "--restarts", 1, "--quiet").returncode == 0
    path = tmp_path / "run" / "model.safetensors"
    config, tensors = modelfile.read(path)
    path.write_bytes(modelfile.file_of(config, tensors | {"more": np.zeros(20_000_000)}))
    for more in (150_000_000, 280_000_000):  # not enough for the file; for the file, but not for what is in it
        done = with_little(more, "predict", tmp_path / "run", tmp_path / "a.csv", "--out", tmp_path / "p.csv")
        assert done.returncode == 2, done.stderr
        assert done.stderr.splitlines()[-1] == (
            f"leadline: `run`: {path} cannot be read: it is larger than the memory that is left."
        )
