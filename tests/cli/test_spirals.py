"""The command line, as a real process; wrong arguments in this one."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leadline.depth import FAMILIES
from leadline.files.directories import output
from tests.tolerances import MANY_SUMS

LEADLINE = [str(Path(sys.executable).with_name("leadline"))]
SCHEMA = {
    "recipe", "depth", "omega", "seed", "epochs", "width", "temperature", "n_restarts", "n_test",
    "accuracy", "nll", "brier", "ece", "roc_auc", "pr_auc",
    "depth_pmf", "depth_mean", "depth_std", "depth_mode", "depth_support",
    "effective_width", "free_energy", "free_energy_terms", "seconds", "device", "version",
    "block", "learning_rate", "batch_size", "precision", "compile_seconds",
}  # fmt: skip


def leadline(*arguments, cwd=None):
    return subprocess.run([*LEADLINE, *map(str, arguments)], capture_output=True, text=True, timeout=300, cwd=cwd)


def ctrl_c_after(word, seconds, *command, sent=signal.SIGINT):
    """What a command says that hears Ctrl-C, or another signal, so long after a word."""
    before = signal.signal(sent, signal.SIG_DFL)  # inherited: who runs the tests may ignore it, as `nohup` does
    try:
        process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    finally:
        signal.signal(sent, before)
    assert process.stderr is not None
    while word not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(seconds)
    process.send_signal(sent)
    stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    return stdout, stderr


def test_spiral_writes_a_record_and_a_picture_and_never_overwrites(tmp_path):
    out = tmp_path / "run"
    chosen = ("--recipe", "written", "--temperature", "auto")
    done = leadline("spiral", "--omega", 4, "--epochs", 3, *chosen, "--out", out)
    assert done.returncode == 0, done.stderr
    record = json.loads((out / "record.json").read_text())
    assert set(record) == SCHEMA | {"validation_nll"}
    tried = record["validation_nll"]
    assert record["temperature"] == float(min(tried, key=tried.get))
    assert f"temperature           {record['temperature']:g} (lowest validation NLL of" in done.stdout
    assert record["omega"] == 4
    assert record["epochs"] == 3
    assert record["recipe"] == "written"
    assert 0 <= record["accuracy"] <= 100
    assert sum(record["depth_pmf"]) == pytest.approx(1, abs=1e-5)
    assert record["depth_mean"] == pytest.approx(sum(k * p for k, p in enumerate(record["depth_pmf"])))
    terms = record["free_energy_terms"]
    total = terms["expected_nll"] + terms["depth_kl"] + terms["weight_kl"]
    assert record["free_energy"] == pytest.approx(total, rel=1e-5)
    shares = terms["weight_kl_by_layer"]
    assert sum(shares["layers"] + shares["heads"]) == pytest.approx(terms["weight_kl"], rel=MANY_SUMS)
    assert (out / "spiral.png").read_bytes().startswith(b"\x89PNG")
    for words in ("test accuracy", "test NLL", "L = 0", "seconds"):
        assert words in done.stdout
    assert sorted(path.name for path in out.iterdir()) == ["metrics.jsonl", "record.json", "spiral.png"]

    before = (out / "record.json").read_bytes()
    again = leadline("spiral", "--epochs", 3, "--out", out)
    assert again.returncode == 2
    assert again.stderr == f"leadline: `out` {out} holds a finished record already; choose another or use --force.\n"
    assert (out / "record.json").read_bytes() == before


def test_ctrl_c_keeps_what_was_trained_and_the_next_run_may_replace_it(tmp_path):
    out = tmp_path / "run"
    arguments = ("--omega", 4, "--epochs", 1_000_000, "--restarts", 1, "--out", out)
    stdout, stderr = ctrl_c_after("epoch", 1.0, *LEADLINE, "spiral", *arguments)
    assert "Traceback" not in stderr
    assert "stopped by Ctrl-C" in stdout
    record = json.loads((out / "record.json").read_text())
    assert record["interrupted"] is True
    assert 1 <= record["epochs"] < 1_000_000

    assert "and the same command goes on from there." in stderr
    with output(out, force=False) as checkpoints:  # an interrupted record is not a finished one
        assert len(list(checkpoints.glob("*.checkpoint"))) in (1, 2)

    other = leadline("spiral", "--omega", 5, "--epochs", 3, "--restarts", 1, "--out", out)
    assert other.returncode == 2
    assert f"`out` {out} holds an unfinished training with omega 4.0, epochs 1000000; give it the same" in other.stderr
    assert json.loads((out / "record.json").read_text()) == record


def test_ctrl_c_while_compiling_ends_at_once(tmp_path, monkeypatch):
    """Nothing is written, and the interpreter does not end under JAX's feet, which crashes now and then."""
    monkeypatch.setenv("JAX_ENABLE_COMPILATION_CACHE", "0")
    monkeypatch.setenv("LEADLINE_NATIVE", "0")
    end = "import atexit; atexit.register(print, 'the interpreter ends')"
    command = (sys.executable, "-c", f"{end}; from leadline.cli import main; main()")
    stdout, stderr = ctrl_c_after(
        "compiling", 0.5, *command, "spiral", "--epochs", 1_000_000, "--out", tmp_path / "run"
    )
    assert stdout == ""
    assert "leadline: interrupted; nothing was written.\n" in stderr
    assert list(tmp_path.iterdir()) == []


def test_a_picture_that_cannot_be_written_does_not_cost_the_record(tmp_path):
    """The limit on the size of a file is above that of the record, and below that of the picture."""
    arguments = ("--omega", 4, "--epochs", 3, "--restarts", 1, "--out", tmp_path, "--force")
    assert leadline("spiral", *arguments).returncode == 0
    assert (tmp_path / "spiral.png").exists()
    limit = "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); from leadline.cli import main; main()"
    command = [sys.executable, "-c", limit, "spiral", *map(str, arguments), "--seed", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert f"leadline: note: `out`: cannot write {tmp_path}: File too large; " in done.stderr
    assert done.stdout.endswith(f"wrote                 {tmp_path / 'record.json'}\n")
    assert json.loads((tmp_path / "record.json").read_text())["seed"] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.jsonl", "record.json"]  # no other's picture


def test_a_picture_of_somebody_else_s_that_comes_meanwhile_stays(tmp_path):
    """Written by the user while the network trains."""
    code = "import leadline.studies.spiral as study, pathlib, sys\ndraw = study.draw\n"
    code += "def late(fit): pathlib.Path(sys.argv[-1], 'spiral.png').write_text('mine'); return draw(fit)\n"
    code += "study.draw = late\nfrom leadline.cli import main; main()"
    command = [sys.executable, "-c", code, "spiral", "--omega", "4", "--epochs", "3", "--restarts", "1", "--width", "4"]
    done = subprocess.run([*command, "--out", tmp_path], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "spiral.png: what is there is not Leadline's" in done.stderr
    assert (tmp_path / "spiral.png").read_text() == "mine"
    assert (tmp_path / "record.json").exists()


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGHUP])
def test_a_process_that_is_asked_to_end_leaves_a_checkpoint(tmp_path, sent):
    out = tmp_path / "run"
    arguments = ("--omega", 4, "--epochs", 1_000_000, "--restarts", 1, "--out", out)
    _, stderr = ctrl_c_after("beginning", 1.0, *LEADLINE, "spiral", *arguments, sent=sent)
    assert f"leadline: interrupted; what is finished is in {out}, and the same command goes on from there." in stderr
    assert any((out / "checkpoints").glob("*.checkpoint"))


@pytest.mark.parametrize("streams", [">/dev/full 2>/dev/full", ">&- 2>&-", "2>/dev/full", "| true"])
def test_output_that_cannot_be_written_is_no_reason_to_stop(tmp_path, streams):
    spiral = f"{LEADLINE[0]} spiral --omega 4 --epochs 3 --restarts 1 --out {tmp_path / 'run'}"
    done = subprocess.run(["bash", "-c", f"{spiral} {streams}"], capture_output=True, text=True, timeout=60)
    assert (tmp_path / "run" / "record.json").exists()
    assert done.returncode == (1 if streams.startswith(">/dev/full") else 0)


def test_what_standard_output_loses_is_said(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("a,名,y\n" + "".join(f"{i},{i % 7},{'yes' if i % 2 else 'no'}\n" for i in range(60)))
    compare = (
        f"{LEADLINE[0]} compare {table} --target y --against none --test 0.2 --epochs 3 --restarts 1 --width 4 --quiet"
    )
    done = subprocess.run(["bash", "-c", f"{compare} >/dev/full"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "leadline: standard output could not be written: No space left on device.\n"


def test_letters_that_the_terminal_does_not_know_stand_there_as_numbers(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "cp1252")
    table = tmp_path / "t.csv"
    table.write_text("a,名,y\n" + "".join(f"{i},{i % 7},{'yes' if i % 2 else 'no'}\n" for i in range(40)), "utf-8")
    arguments = (table, "--target", "y", "--out", tmp_path / "run", "--epochs", 3, "--restarts", 1, "--width", 4)
    done = subprocess.run([*LEADLINE, "fit", *map(str, arguments)], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert b"\\u540d: number" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--omega", "-1"], "`omega` must be at least 0, got -1.0."),
        (["--epochs", "0"], "`epochs` must be a whole number of at least 1, got 0."),
        (["--recipe", "secret"], "`recipe` must be one of leadline, table, image, published, written, got 'secret'."),
        (["--depth", "gamma"], f"`depth` must be one of {', '.join(FAMILIES)}, a whole number of at least 0,"),
        (["--depth", "-2"], "`depth` must be a whole number of at least 0, got -2."),
        (["--width", "0"], "`width` must be a whole number of at least 1, got 0."),
        (["--depth=²"], f"`depth` must be one of {', '.join(FAMILIES)},"),
        (["--depth", "99999999999"], "`depth` must be at most 1022, got"),
        (["--seed", "99999999999999999999"], "`seed` must be at most 2147483647, got 99999999999999999999."),
        (["--seed", "-1"], "`seed` must be a whole number of at least 0, got -1."),
        (["--temperature", "warm"], '`temperature` must be a number of at least 0 or "auto", got'),
        (["--restarts", "0"], "`restarts` must be a whole number of at least 1, got 0."),
        (["--checkpoint-every", "-1"], "Invalid value for '--checkpoint-every'"),
        (["--epochs", "many"], "Invalid value for '--epochs'"),
        (["--omegga", "1"], "No such option"),
    ],
)
def test_wrong_arguments_exit_with_status_2_and_one_sentence(tmp_path, arguments, message, leadline_here):
    done = leadline_here("spiral", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_an_out_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    done = leadline("spiral", "--epochs", 1, "--out", tmp_path / "file")
    assert done.returncode == 2
    assert done.stderr == f"leadline: `out` must be a directory, got the file {tmp_path / 'file'}.\n"
    done = leadline("spiral", "--epochs", 1, "--out", tmp_path / "file" / "below")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_version_and_help_answer_at_once():
    import leadline as package

    start = time.monotonic()
    subprocess.run([sys.executable, "-c", "import jax, pandas, sklearn.utils.estimator_checks"], check=True)
    imports = time.monotonic() - start
    start = time.monotonic()
    assert leadline("--version").stdout == f"leadline {package.__version__}\n"
    assert "--omega" in leadline("spiral", "--help").stdout
    assert time.monotonic() - start < 2 * 4 * imports  # two commands; compiling anything would take far longer


def test_ctrl_c_while_it_loads_is_one_sentence(tmp_path):
    """At once when JAX is about to be imported."""
    code = "import os, signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "class Now:\n    def find_spec(self, name, *_):\n"
    code += "        if name == 'jax': os.kill(os.getpid(), signal.SIGINT)\n"
    code += "sys.meta_path.insert(0, Now())\nfrom leadline.cli import main; main()"
    command = [sys.executable, "-c", code, "spiral", "--out", tmp_path / "run"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (130, "leadline: interrupted; nothing was written.\n")
