"""Any way of being stopped is a checkpoint, and output is never a reason to stop."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.torture import ROOT, RUN, Torture, outputs

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
STREAMS = (
    ">/dev/full 2>/dev/full",
    ">&- 2>&-",
    ">/dev/null 2>&1",
    "2>/dev/full >/dev/null",
    "> >(head -c 10 >/dev/null)",
)
COMMANDS = ("spiral", "fit", "fit numbers")


def campaign(folder: Path, n_cases: int, seed: int) -> dict[str, Any]:
    """So many commands, each stopped once or twice, with output that goes nowhere, and then gone on with."""
    torture, rng = Torture(folder, seed), random.Random(seed)
    figures: dict[str, Any] = {"tried": n_cases, "failed": [], "stopped": 0, "with a checkpoint": 0}
    for i in range(n_cases):
        command = COMMANDS[i % len(COMMANDS)]
        expected, seconds = torture.left_alone(command)
        out = folder / f"stopped{i}"
        arguments = [one for one in torture.arguments(command, out, "--checkpoint-every", "60") if one != "--quiet"]
        said: list[str] = []
        for _ in range(rng.choice([1, 1, 2])):
            sent, streams = rng.choice(SIGNALS), rng.choice(STREAMS)
            environment = {"PYTHONIOENCODING": rng.choice(["utf-8", "cp1252", "ascii"])}
            said.append(f"{sent.name} with {streams} in {environment['PYTHONIOENCODING']}")
            code = f"import os, signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n{RUN}"
            given = " ".join(f"'{one}'" for one in [sys.executable, "-c", code, *arguments])
            before = set(out.rglob("*"))
            process = _started(f"exec {given} {streams}", environment)
            try:
                process.wait(timeout=rng.uniform(0.2, 0.9) * seconds)
            except subprocess.TimeoutExpired:
                process.send_signal(sent)
                figures["stopped"] += 1
            status = process.wait(timeout=60)
            record = out / "record.json"
            finished = record.exists() and not json.loads(record.read_text()).get("interrupted")
            outside = status == -sent and (finished or set(out.rglob("*")) == before)  # before it began, after all
            if status not in (0, 1, 2, 130) and not outside:
                figures["failed"].append(f"{command}: {said}: exit status {status}")
            kept = any((out / "checkpoints").glob("*.checkpoint"))
            figures["with a checkpoint"] += kept
            if record.exists() and not finished and not kept:
                figures["failed"].append(f"{command}: {said}: stopped without a checkpoint")
        if not finished:
            torture.finish(arguments)
        if outputs(out) != expected:
            figures["failed"].append(f"{command}: {said}: the result differs")
        shutil.rmtree(out)
    return figures


def _started(line: str, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["bash", "-c", line], cwd=ROOT, env={**os.environ, **environment})
