"""How long until something happens: from the command to the end of the first epoch, and how much memory it takes.

    python benchmarks/startup.py [--json FILE] [--repeats N]

`leadline spiral` runs on a terminal of its own, as for a user, and is stopped when its live line shows the first epoch:
cold, with an empty cache of compiled programs, and warm, with the one that the cold run left. `python -c "import jax"`
and `import leadline` are timed beside it. All cores; medians.
"""

import argparse
import json
import os
import pty
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

LEADLINE = str(Path(sys.executable).with_name("leadline"))
FIRST_EPOCH = re.compile(rb"epoch +[1-9]")


def seconds_of(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def first_epoch(cache: Path) -> float:
    """Seconds from the command to the first epoch on its live line."""
    screen, terminal = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
    environment |= {"XDG_CACHE_HOME": str(cache), "TERM": "xterm", "COLUMNS": "120"}
    with tempfile.TemporaryDirectory() as out:
        start = time.perf_counter()
        process = subprocess.Popen(
            [LEADLINE, "spiral", "--omega", "10", "--out", out],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=environment,
        )
        os.close(terminal)
        seen = b""
        while not FIRST_EPOCH.search(seen):
            seen += os.read(screen, 65536)
        seconds = time.perf_counter() - start
        process.send_signal(signal.SIGKILL)
        process.wait()
        os.close(screen)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    taken: dict[str, list[float]] = {}
    for _ in range(arguments.repeats):
        with tempfile.TemporaryDirectory() as cache:
            for name, measure in {
                "import jax": lambda: seconds_of("import jax"),
                "import leadline": lambda: seconds_of("import leadline"),
                "first epoch, cold": lambda: first_epoch(Path(cache)),
                "first epoch, warm": lambda: first_epoch(Path(cache)),
            }.items():
                taken.setdefault(name, []).append(measure())
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    result = {name: median(seconds) for name, seconds in taken.items()}
    for name, seconds in result.items():
        print(f"{name:20s}{seconds:8.2f} s")
    share = result["first epoch, warm"] / result["first epoch, cold"]
    print(f"warm / cold         {share:8.2f}\npeak memory         {peak:8.0f} MB")
    if arguments.json:
        record = {"seconds": result, "warm_over_cold": share, "peak_megabytes": peak, "cores": os.cpu_count()}
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
