"""Directories as trainings leave them, for tests of what watches them."""

import json
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

LEADLINE = [sys.executable, "-m", "leadline"]

SMALL = ("--restarts", "2", "--width", "8", "--quiet")


def spiral(out, *more, epochs=60):
    """A finished training."""
    given = [*LEADLINE, "spiral", "--omega", "4", "--epochs", str(epochs), *SMALL, "--out", str(out), *map(str, more)]
    done = subprocess.run(given, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return Path(out)


@contextmanager
def training(out, begun, *more, omega=4, epochs=1500):
    """The process of one that has begun, and is stopped for the moment (SIGCONT has it go on)."""
    given = [*LEADLINE, "spiral", "--omega", omega, "--epochs", epochs, *SMALL, "--out", out, *more]
    process = subprocess.Popen([*map(str, given)], stderr=subprocess.DEVNULL)
    try:
        give_up = time.monotonic() + 60
        while not begun():
            assert process.poll() is None
            assert time.monotonic() < give_up
            time.sleep(0.002)
        process.send_signal(signal.SIGSTOP)
        yield process
    finally:
        process.kill()
        process.wait()


def line(epoch, pmf=None, epochs=None, restart=0, **changes):
    """One of metrics.jsonl; what it says of a restart depends on both numbers."""
    x = epoch + 0.25 * restart
    said = {"restart": restart, "epoch": epoch, "phase": "training", "temperature": 1.0}
    said |= {"free_energy": 100 / x + 6, "expected_nll": 100 / x, "depth_kl": 1.0, "weight_kl": 5.0}
    said |= {"validation_nll": 1 / x, "depth_mean": 1 + 0.1 * restart, "depth_std": 0.5, "depth_support": [0, 2]}
    said |= {"seconds": 0.01 * epoch}
    if pmf is not None:
        said |= {"epochs": epochs, "depth_pmf": pmf}
    return said | changes


def text(*lines):
    """As they stand in the file."""
    return "".join(json.dumps(one) + "\n" for one in lines)


def hostile(out, name):
    """A finished run whose record calls everything so."""
    record = {"recipe": name, "depth": "normal", "width": 8, "temperature": 1.0, "n_restarts": 1, "epochs": 3}
    record |= {"seed": 0, "depth_pmf": [0.25, 0.75], "depth_mean": 0.75, "depth_std": 0.43, "depth_mode": 1}
    record |= {"depth_support": [0, 1], "seconds": 1.0, "device": name, "version": "0", "name": name, "target": name}
    record |= {"columns": [{"name": name, "words": "number"}], "accuracy": 97.5, "task": "classification"}
    out.mkdir(parents=True)
    (out / "metrics.jsonl").write_text(text(*[line(k) for k in range(1, 4)]))
    (out / "record.json").write_text(json.dumps(record))
    return out
