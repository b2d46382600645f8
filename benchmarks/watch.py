"""What it costs a training to be watched, and how soon one sees it.

python benchmarks/watch.py load     # fifty pages for a minute beside trainings that have none, in turn; kill -9
python benchmarks/watch.py delay    # from an epoch to its pixel, in Chromium
python benchmarks/watch.py axe      # what axe-core says of the pages (fetched with npm into a temporary folder)
python benchmarks/watch.py shot     # docs/watch.png

The last three need Debian's chromium and chromium-driver. Results go to results/server/NAME.json.
"""

import argparse
import json
import os
import platform
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

ROOT = Path(__file__).parents[1]
LEADLINE = [sys.executable, "-m", "leadline"]
OMEGA = 10
RUN = b"event: run\n"


def spiral(out: Path, epochs: int, *more: Any) -> subprocess.Popen[bytes]:
    """A training in a process of its own."""
    given = [*LEADLINE, "spiral", "--omega", OMEGA, "--epochs", epochs, "--out", out, "--quiet", *more]
    return subprocess.Popen([str(one) for one in given], cwd=ROOT)


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Its address and its process."""
    given = [*LEADLINE, "watch", str(folder), "--no-open"]
    process = subprocess.Popen(given, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[-1], process
    finally:
        process.terminate()
        process.wait()


def taken(process: subprocess.Popen[bytes]) -> float:
    """Seconds of all cores that a process took, waited for to its end."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


def wait_for(holds: Callable[[], Any], seconds: float = 120) -> None:
    """Until something holds."""
    give_up = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.02)


# Fifty pages


class Clients:
    """So many pages that listen, and count what they hear; they do little else, for they are on the same cores."""

    def __init__(self, address: str, file: str, n: int):
        parts = urlsplit(address)
        self.events, self.errors, self.n_bytes = np.zeros(n, int), 0, 0
        self._ends = [b""] * n
        self._selector = selectors.DefaultSelector()
        asked = f"GET {parts.path}{file} HTTP/1.1\r\nHost: 127.0.0.1:{parts.port}\r\n\r\n"
        for i in range(n):
            line = socket.create_connection((parts.hostname, parts.port))
            line.sendall(asked.encode())
            self._selector.register(line, selectors.EVENT_READ, i)

    def listen(self, until: Callable[[], bool], every: float = 0.2) -> None:
        """Until something holds that is looked for every so often."""
        due = 0.0
        while not (time.monotonic() >= due and until()):
            due = max(due, time.monotonic() + every) if time.monotonic() >= due else due
            for key, _ in self._selector.select(max(0.0, due - time.monotonic())):
                self._hear(key.fileobj, key.data)
        for key in list(self._selector.get_map().values()):
            self._hang_up(key.fileobj)
        self._selector.close()

    def _hear(self, line: Any, i: int) -> None:
        try:
            said = line.recv(2**18)
        except OSError as error:
            said = b""
            print(error)
        if not said:
            self.errors += 1
            self._hang_up(line)
            return
        self.n_bytes += len(said)
        together = self._ends[i] + said
        self.events[i] += together.count(RUN)
        self._ends[i] = together[len(together) - len(RUN) + 1 :]

    def _hang_up(self, line: Any) -> None:
        self._selector.unregister(line)
        line.close()


def load(pairs: int, epochs: int, n_clients: int, seconds: float) -> dict[str, Any]:
    """Trainings without pages and with fifty, in turn; then one whose server is killed."""
    alone, watched, heard = [], [], {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for i in range(pairs):
            for kind in ("alone", "watched") if i % 2 == 0 else ("watched", "alone"):
                out = folder / f"{kind}{i}" / "run"
                if kind == "alone":
                    alone.append(_timed(out, epochs))
                    continue
                out.parent.mkdir()
                with server(out.parent) as (address, process):
                    begin = process_seconds(process.pid)
                    watched.append(_timed(out, epochs, address, n_clients))
                    watched[-1]["server"] = process_seconds(process.pid) - begin
            print(alone[-1], watched[-1], flush=True)
        with server(folder / "watched0") as (address, process):
            heard = _for_a_minute(address, folder / "watched0" / "other", n_clients, seconds)
            heard["server_seconds"] = process_seconds(process.pid)
        same = _killed(folder, epochs)
    ratio = {
        name: [w[name] / a[name] for a, w in zip(alone, watched, strict=True)] for name in ("training", "processor")
    }
    said = {name: {"median": float(np.median(each)), "each": each} for name, each in ratio.items()}
    return {"alone": alone, "watched": watched, "ratio": said, "minute": heard, "same_after_kill": same}


def _timed(out: Path, epochs: int, address: str = "", n_clients: int = 0) -> dict[str, Any]:
    """The seconds of the training as its record has them, and those of all cores."""
    process = spiral(out, epochs)
    heard = {}
    if address:
        wait_for(lambda: (out / "metrics.jsonl").exists())
        time.sleep(1.5)  # until it is found
        begin = time.process_time()
        clients = Clients(address, "one?run=run", n_clients)
        clients.listen((out / "record.json").exists)
        assert clients.errors == 0
        heard = {"events": int(clients.events.sum()), "readers": time.process_time() - begin}
    processor = taken(process)
    record = json.loads((out / "record.json").read_text())
    return {"training": record["seconds"], "processor": processor, **heard}


def _for_a_minute(address: str, out: Path, n_clients: int, seconds: float) -> dict[str, Any]:
    process = spiral(out, 1_000_000, "--checkpoint-every", 1000)
    wait_for(lambda: (out / "metrics.jsonl").exists())
    time.sleep(2)
    clients = Clients(address, "one?run=other", n_clients)
    end = time.monotonic() + seconds
    clients.listen(lambda: time.monotonic() > end)
    process.kill()
    process.wait()
    each = clients.events
    said = {"clients": n_clients, "seconds": seconds, "errors": clients.errors, "megabytes": clients.n_bytes / 1e6}
    return said | {"events_least": int(each.min()), "events_most": int(each.max())}


def _killed(folder: Path, epochs: int) -> bool:
    """Whether a training whose server was killed in the middle has the record of the others, but for the time."""
    with server(folder) as (_, process):
        training = spiral(folder / "killed", epochs)
        wait_for(lambda: (folder / "killed" / "metrics.jsonl").exists())
        process.send_signal(signal.SIGKILL)
        assert training.wait() == 0
    records = [json.loads((folder / one / "record.json").read_text()) for one in ("killed", "alone0/run")]
    for record in records:
        for name in ("seconds", "compile_seconds"):
            record.pop(name)
    return records[0] == records[1]


def process_seconds(process: int) -> float:
    """Of all cores, so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# In a browser


def chromium(width: int = 1280, height: int = 900, dark: bool = False) -> Any:
    """A browser without a window."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        f"--window-size={width},{height}",
    ):
        options.add_argument(argument)
    browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    _sized(browser, width, height)
    return browser


def _sized(browser: Any, width: int, height: int) -> None:
    given = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", given)


CHILD = """
import sys, time
from pathlib import Path
from leadline.callbacks import JsonLines
from leadline.likelihoods import CategoricalLikelihood
from leadline.studies.spiral import spiral_problem
from leadline.training.loop import train
from leadline.training.run import Watch
from leadline.training.settings import Settings

out, epochs = Path(sys.argv[1]), int(sys.argv[2])
out.mkdir()
times = open(out / "times.txt", "w")

class Times:
    def burst(self, burst):
        now = time.time()
        for i in range(len(burst)):
            print(burst.first + i, now - (burst.seconds[-1] - burst.seconds[i]), now, file=times, flush=True)

settings = Settings(epochs=epochs).resolved(CategoricalLikelihood)
train(spiral_problem(10.0, 1), settings, watch=Watch(on_epoch=[Times(), JsonLines(out / "metrics.jsonl")]))
"""

SEEN = """
window.seen = [];
new MutationObserver(() => {
  const epoch = Number(document.body.dataset.epoch);
  const note = () => seen.push([epoch, performance.timeOrigin + performance.now()]);
  requestAnimationFrame(() => requestAnimationFrame(note));
}).observe(document.body, { attributes: true, attributeFilter: ["data-epoch"] });
"""


def delay(epochs: int) -> dict[str, Any]:
    """Seconds from the end of an epoch to the frame after the one that draws it, and those from the end of the call
    that the epoch is in: until then the training itself knows nothing of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with server(folder) as (address, _):
            browser = chromium()
            process = subprocess.Popen([sys.executable, "-c", CHILD, str(folder / "run"), str(epochs)], cwd=ROOT)
            wait_for(lambda: (folder / "run" / "metrics.jsonl").exists())
            browser.get(address)
            wait_for(lambda: browser.execute_script("return document.body.dataset.epoch"))
            browser.execute_script(SEEN)
            process.wait()
            time.sleep(2)
            seen = np.array(browser.execute_script("return seen"))
            browser.quit()
        times = np.loadtxt(folder / "run" / "times.txt")
    some = times[times[:, 0] > seen[0, 0]]
    place = np.searchsorted(seen[:, 0], some[:, 0])
    assert place.max() < len(seen)
    pixel = seen[place, 1] / 1000
    ends = {"from_the_epoch": pixel - some[:, 1], "from_the_call": pixel - some[:, 2]}
    said = {
        name: dict(zip(("median", "95 %"), np.quantile(each, [0.5, 0.95]), strict=True)) for name, each in ends.items()
    }
    return {"epochs": len(some), "frames": len(seen), **said}


def pages(folder: Path) -> list[str]:
    """A table with two inputs, two spirals and a grid to look at; and what stands behind # for each page."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    inside = np.where((x**2).sum(axis=1) < 1.2, "in", "out")
    rows = "".join(f"{a:.4f},{b:.4f},{label}\n" for (a, b), label in zip(x, inside, strict=True))
    (folder / "circle.csv").write_text(f"a,b,class\n{rows}")
    runs = folder / "runs"
    for omega in (4, 10):
        subprocess.run(
            [
                *LEADLINE,
                "spiral",
                "--omega",
                str(omega),
                "--epochs",
                "300",
                "--out",
                str(runs / f"omega-{omega}"),
                "--quiet",
            ],
            check=True,
        )
    fit = [
        *LEADLINE,
        "fit",
        str(folder / "circle.csv"),
        "--target",
        "class",
        "--epochs",
        "300",
        "--out",
        str(runs / "circle"),
    ]
    subprocess.run([*fit, "--quiet"], check=True)
    grid = [*LEADLINE, "reproduce", "--out", str(runs / "grid"), "--omegas", "2,6,10", "--runs", "2", "--epochs", "60"]
    subprocess.run([*grid, "--recipe", "leadline", "--depth", "normal", "--quiet"], check=True)
    return ["", "run=circle", "run=omega-10"]


def axe(script: str) -> dict[str, Any]:
    """What it finds, by its weight, on every page in every look; and pictures to look at."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not script:
            subprocess.run(["npm", "pack", "--silent", "axe-core"], cwd=folder, check=True, capture_output=True)
            shutil.unpack_archive(next(folder.glob("axe-core-*.tgz")), folder)
            script = str(folder / "package" / "axe.min.js")
        places = pages(folder)
        with server(folder / "runs") as (address, _):
            for look, width, dark in (("light", 1280, False), ("dark", 1280, True), ("phone", 390, False)):
                browser = chromium(width, dark=dark)
                for place in places:
                    browser.get("about:blank")
                    browser.get(f"{address}#{place}")
                    time.sleep(6)
                    _sized(browser, width, browser.execute_script("return document.documentElement.scrollHeight"))
                    time.sleep(1)
                    browser.save_screenshot(str(Path(tempfile.gettempdir()) / f"watch-{look}-{place or 'all'}.png"))
                    browser.execute_script(Path(script).read_text())
                    said = browser.execute_script(
                        "return axe.run().then((r) => ({v: r.violations, n: r.passes.length}))"
                    )
                    faults = [f"{one['impact']}: {one['id']}, {len(one['nodes'])} times" for one in said["v"]]
                    found[f"{place or 'all'}, {look}"] = {"faults": faults, "passes": said["n"]}
                    for one in said["v"]:
                        print(place, look, one["id"], one["nodes"][0]["html"][:200], one["nodes"][0]["failureSummary"])
                browser.quit()
    return found


def shot(path: Path, epochs: int) -> None:
    """A picture of the page while a training runs."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with server(folder) as (address, _):
            process = spiral(folder / "run", epochs, "--checkpoint-every", 1)
            browser = chromium(1180, 1180)
            browser.get(address)
            done = f"return Number(document.body.dataset.epoch) > {0.45 * epochs}"
            wait_for(lambda: browser.execute_script(done), 600)
            _sized(browser, 1180, browser.execute_script("return document.documentElement.scrollHeight"))
            time.sleep(1)
            browser.save_screenshot(str(path))
            browser.quit()
            process.kill()
            process.wait()
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("load", "delay", "axe", "shot"))
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=3000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--axe", default="", help="axe.min.js, where it is already")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "server")
    given = parser.parse_args()
    if given.what == "shot":
        shot(ROOT / "docs" / "watch.png", given.epochs)
        return
    run: dict[str, Callable[[], Any]] = {
        "load": lambda: load(given.pairs, given.epochs, given.clients, given.seconds),
        "delay": lambda: delay(given.epochs),
        "axe": lambda: axe(given.axe),
    }
    said = run[given.what]()
    about = {"python": platform.python_version(), "cores": os.cpu_count(), "load_average": os.getloadavg()[0]}
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / f"{given.what}.json").write_text(json.dumps(about | {given.what: said}, indent=1) + "\n")
    print(json.dumps(said, indent=1))


if __name__ == "__main__":
    main()
