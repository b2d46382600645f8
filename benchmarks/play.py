"""Frames a second of `leadline play`, and the delay from an epoch to its pixel, in a real Chromium on this machine.

python benchmarks/play.py --json results/server/play.json --picture docs/play.png

Needs Chromium with its driver (Debian's chromium and chromium-driver) and Selenium. The delay is from the moment that
the last epoch of a frame is done to the first repaint after the frame was drawn.
"""

import argparse
import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np


def window(dark: bool = False) -> Any:
    """A browser."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,1120", "--hide-scrollbars"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver") or ""))
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    return browser


def cpu_seconds(process: int) -> float:
    """Of a process and all that it has started, as Linux counts them."""
    parents, used = {}, {}
    for one in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            told = (one / "stat").read_text().rpartition(")")[2].split()
            parents[int(one.name)], used[int(one.name)] = int(told[1]), int(told[11]) + int(told[12])
    below = {process}
    while more := {one for one, parent in parents.items() if parent in below} - below:
        below |= more
    return sum(used.get(one, 0) for one in below) / os.sysconf("SC_CLK_TCK")


def played(browser: Any, address: str, speed: int, seconds: float, processes: dict[str, int]) -> dict[str, Any]:
    """A game with the usual settings for so long, at so many epochs a frame."""
    browser.get(address + "#epochs=10000")
    browser.execute_script("sessionStorage.clear()")
    browser.refresh()
    wait(browser, "return document.querySelectorAll('#depths li').length")
    browser.execute_script("document.getElementById('speed').value = arguments[0]", str(speed))
    browser.execute_script("document.getElementById('run').click()")
    time.sleep(2)  # what is new is compiled
    browser.execute_script("performance.clearMeasures()")
    begin, used = time.perf_counter(), {name: -cpu_seconds(one) for name, one in processes.items()}
    time.sleep(seconds)
    measures = (
        "performance.getEntriesByName('epoch to pixel').map((one) => [one.startTime + one.duration, one.duration])"
    )
    drawn = np.array(browser.execute_script(f"return {measures}"))
    passed = time.perf_counter() - begin
    used = {name: before + cpu_seconds(processes[name]) for name, before in used.items()}
    browser.execute_script("document.getElementById('run').click()")
    between = np.diff(drawn[:, 0])
    return {
        "epochs_per_frame": speed,
        "seconds": round(passed, 1),
        "frames_per_second": round(len(drawn) / passed, 1),
        "cpu_ms_per_frame": {name: round(1000 * one / len(drawn), 1) for name, one in used.items()},
        "frame_ms": {
            "median": round(float(np.median(between)), 1),
            "95 %": round(float(np.quantile(between, 0.95)), 1),
        },
        "delay_ms": {
            "median": round(float(np.median(drawn[:, 1])), 1),
            "95 %": round(float(np.quantile(drawn[:, 1], 0.95)), 1),
        },
    }


def wait(browser: Any, script: str, seconds: float = 60) -> Any:
    """What the page says, once it is something."""
    give_up = time.monotonic() + seconds
    while not (said := browser.execute_script(script)):
        assert time.monotonic() < give_up, script
        time.sleep(0.05)
    return said


def photographed(browser: Any, address: str, path: Path, epoch: int) -> None:
    """The page in the middle of a game."""
    from PIL import Image

    browser.get(address + "#noise=0.02")
    browser.execute_script("sessionStorage.clear()")
    browser.refresh()
    wait(browser, "return document.querySelectorAll('#depths li').length")
    browser.execute_script("document.getElementById('run').click()")
    wait(browser, f"return Number(document.getElementById('epoch').textContent) >= {epoch}", 120)
    browser.execute_script("document.getElementById('run').click()")
    wait(browser, "return document.getElementById('plane').dataset.detail === 'still'")
    browser.save_screenshot(str(path))
    small = Image.open(path).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15, help="of each speed")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path, help="where a screenshot goes")
    arguments = parser.parse_args()
    command = [sys.executable, "-m", "leadline", "play", "--no-open"]
    load, speeds = os.getloadavg()[0], []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    ) as server:
        assert server.stdout is not None
        address, browser = server.stdout.readline().split()[-1], window()
        processes = {"server": server.pid, "browser": browser.service.process.pid}
        try:
            for speed in (1, 2, 10):
                speeds.append(played(browser, address, speed, arguments.seconds, processes))
                print(json.dumps(speeds[-1]), flush=True)
            if arguments.picture:
                photographed(browser, address, arguments.picture, 420)
        finally:
            browser.quit()
            server.terminate()
    result = {
        "what": "omega 15, 1,000 points, width 32, 64 x 64 points of the plane and 8 draws of the weights a frame",
        "where": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}",
        "when": datetime.now(UTC).date().isoformat(),
        "load_average_before": round(load, 1),
        "load_average_after": round(os.getloadavg()[0], 1),
        "speeds": speeds,
    }
    print(json.dumps(result, indent=1))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
