"""What `leadline fit` and `spiral` write while they train, and what they say of a model that was cut off."""

import json
import signal
import subprocess
import time

import pytest

from tests.cli.test_spirals import LEADLINE, ctrl_c_after, leadline

SPIRAL = ("spiral", "--omega", 4, "--restarts", 2, "--width", 8)


def epochs_of(path):
    """Of the lines that are whole."""
    return [(line["epoch"], line["restart"]) for line in map(json.loads, path.read_text().splitlines())]


def table_in(folder, n_rows=200):
    table = folder / "t.csv"
    table.write_text("a,y\n" + "".join(f"{i * 37 % 101},{'yes' if i % 3 else 'no'}\n" for i in range(n_rows)))
    return table


@pytest.mark.parametrize("command", ["fit", "spiral"])
def test_there_is_a_line_for_every_epoch_and_restart(tmp_path, command):
    out = tmp_path / "run"
    given = ("fit", table_in(tmp_path), "--target", "y", "--restarts", 2, "--width", 8)
    done = leadline(*(given if command == "fit" else SPIRAL), "--epochs", 40, "--out", out, "--quiet")
    assert done.returncode == 0, done.stderr
    record = json.loads((out / "record.json").read_text())
    assert epochs_of(out / "metrics.jsonl") == [(i, k) for i in range(1, record["epochs"] + 1) for k in range(2)]


def test_it_grows_while_the_network_trains_and_a_kill_doubles_no_line(tmp_path):
    out = tmp_path / "run"
    metrics = out / "metrics.jsonl"
    given = [*LEADLINE, *map(str, (*SPIRAL, "--epochs", 4000, "--out", out, "--checkpoint-every", 0.2, "--quiet"))]
    kills, sizes = 0, []
    while kills < 2:
        process = subprocess.Popen(given, stderr=subprocess.PIPE)
        before, until = metrics.stat().st_size if metrics.exists() else 0, time.monotonic() + 60
        while time.monotonic() < until and (
            not any((out / "checkpoints").glob("*.checkpoint")) or metrics.stat().st_size <= before
        ):
            time.sleep(0.02)
            assert process.poll() is None
        sizes.append(metrics.stat().st_size)
        process.kill()
        process.communicate()
        kills += 1
    assert sizes[0] < sizes[1]
    done = subprocess.run(given, capture_output=True, text=True, timeout=120)
    assert "going on" not in done.stdout
    assert done.returncode == 0, done.stderr
    assert epochs_of(metrics) == [(i, k) for i in range(1, 4001) for k in range(2)]


def test_a_file_of_somebody_else_s_is_refused_before_anything_is_trained(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"epoch": 1, "loss": 0.3}\n')
    done = leadline(*SPIRAL, "--epochs", 3, "--out", tmp_path)
    assert done.returncode == 2
    assert "metrics.jsonl: what is there is not Leadline's" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]
    assert (tmp_path / "metrics.jsonl").read_text() == '{"epoch": 1, "loss": 0.3}\n'


def test_where_nothing_came_of_it_no_lines_are_left(tmp_path):
    """The second Ctrl-C ends it at once."""
    out = tmp_path / "run"
    code = "import leadline.training.run as run, signal\n"
    code += "def press(self, checkpoints): signal.raise_signal(2); signal.raise_signal(2)\n"
    code += "run.Run._save = press\nfrom leadline.cli import main; main()"
    python = LEADLINE[0].replace("leadline", "python")
    arguments = [str(one) for one in (*SPIRAL, "--epochs", 50, "--out", out, "--checkpoint-every", 0)]
    done = subprocess.run([python, "-c", code, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 130
    assert done.stderr.endswith("leadline: interrupted; nothing was written.\n")
    assert not out.exists()


def test_a_model_that_was_cut_off_is_noted_once_where_it_predicts(tmp_path):
    table, out = table_in(tmp_path, 3000), tmp_path / "run"
    given = ("fit", table, "--target", "y", "--out", out, "--width", 100, "--restarts", 4)
    _, stderr = ctrl_c_after("beginning", 1.5, *LEADLINE, *given, sent=signal.SIGINT)
    assert json.loads((out / "record.json").read_text())["interrupted"]
    assert "was cut off" not in stderr
    done = leadline("predict", out, table, "--out", tmp_path / "p.csv")
    assert done.returncode == 0
    assert done.stderr.count("note: The training of this model was cut off: expect it to be too sure") == 1
