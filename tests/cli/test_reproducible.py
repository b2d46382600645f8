"""The same command, the same machine: the same files, to the bit, but for the seconds it took."""

import pytest
from typer.testing import CliRunner

from leadline.cli import compare, predictions, spirals, tables  # noqa: F401
from leadline.cli.app import app
from tests.torture import _write_data, outputs

FIT = "fit {data}/table.csv --target label --epochs 6 --restarts 2 --quiet --out {out}"
COMMANDS = {
    "spiral": ["spiral --omega 5 --epochs 4 --restarts 2 --quiet --out {out}"],
    "spiral with temperatures": ["spiral --omega 5 --epochs 3 --restarts 1 --temperature auto --quiet --out {out}"],
    "fit and predict": [FIT, "predict {out} {data}/table.csv --out {out}/predictions.csv --quiet"],
    "fit numbers": ["fit {data}/table.csv --target number --epochs 6 --restarts 2 --quiet --out {out}"],
    "compare": ["compare {data}/table.csv --target label --depth normal,1 --epochs 4 --restarts 1 --quiet --out {out}"],
    "reproduce": ["reproduce --omegas 5,10 --runs 1 --recipe written --epochs 3 --quiet --out {out}"],
    "benchmark": [
        "benchmark uci --data {data}/sets --names line --depth normal,1 --epochs 4 --quiet --out {out}",
    ],
}
SOON = ("spiral", "fit and predict", "fit numbers")
"""The others are made of the same parts."""


@pytest.mark.usefixtures("as_users_have_it")
@pytest.mark.parametrize(
    "name", [name if name in SOON else pytest.param(name, marks=pytest.mark.slow) for name in COMMANDS]
)
def test_a_command_gives_the_same_twice(name, tmp_path):
    _write_data(tmp_path / "table.csv", tmp_path / "sets")
    found = []
    for i in range(2):
        out, said = tmp_path / f"out-{i}", ""
        for command in COMMANDS[name]:
            done = CliRunner().invoke(app, command.format(data=tmp_path, out=out).split(), catch_exceptions=False)
            assert done.exit_code == 0, done.output
            said += done.output
        files = outputs(out) if out.exists() else {}
        assert files or said
        assert "something else" not in files.values()  # no checkpoint, no lock is left
        found.append((files, said.replace(str(out), "")))
    assert found[0] == found[1]
