"""The page of `leadline watch` in a real Chromium: what one sees of a training is what it writes."""

import json
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager, suppress

import pytest

from leadline.server.watch import Watcher, make_watch
from tests.server.runs import LEADLINE, hostile, line, text, training
from tests.server.serving import serving

HOSTILE = "<img src=x onerror=alert(1)>"

READ = """
const text = (id) => document.getElementById(id)?.textContent ?? null;
const card = (name) => document.querySelector(`#cards [data-name="${name}"]`)?.firstChild?.textContent ?? null;
const details = document.querySelector("#depth details");
details.open = true;
return {
  epoch: Number(document.body.dataset.epoch ?? 0), status: document.body.dataset.status, title: text("title"),
  words: text("words"), connection: document.getElementById("connection").dataset.state,
  notice: document.getElementById("notice").hidden ? null : text("notice"),
  depth: [...document.querySelectorAll("#depth tbody tr")].map((row) => row.cells[1].textContent),
  bars: [...document.querySelectorAll("#depth .bar")].map((bar) => bar.style.transform),
  label: document.querySelector("#depth svg").getAttribute("aria-label"),
  mean: card("depth_mean"), energy: card("free_energy"), accuracy: card("accuracy"), nll: card("validation_nll"),
};
"""


@contextmanager
def watching(folder):
    watcher = Watcher(folder)
    with watcher.following(), serving(make_watch(watcher)) as address:
        yield address


def until(browser, holds, seconds=30):
    """What the page says, as soon as something holds of it."""
    give_up = time.monotonic() + seconds
    while True:
        said = None
        with suppress(Exception):  # of a page that is not there yet
            said = browser.execute_script(READ)
        if said is not None and holds(said):
            return said
        assert time.monotonic() < give_up, said
        time.sleep(0.05)


def is_written(path):
    """Whether there is something in a file."""
    return path.exists() and path.stat().st_size > 0


PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}


def errors(browser):
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def digits(value, n=3):
    """As the page writes it; by another way."""
    return f"{value:.{n}g}" if float(f"{value:.{n}g}") < 10**n else f"{value:,.0f}"


def test_one_sees_a_training_learn_and_what_came_of_it(tmp_path, browser, new_browser):
    out = tmp_path / "run"
    errors(browser)  # of other tests
    with watching(tmp_path) as address:
        with training(out, lambda: is_written(out / "metrics.jsonl"), omega=6) as process:
            browser.get(address)
            begun = until(browser, lambda said: said["epoch"] > 0 and said["status"] == "running" and said["depth"])
            process.send_signal(signal.SIGCONT)
            is_further = lambda said: said["epoch"] > begun["epoch"] and said["depth"] != begun["depth"]  # noqa: E731
            moved = until(browser, is_further)
            process.send_signal(signal.SIGSTOP)
            assert moved["bars"] != begun["bars"]
            of_page = [float(mass) for mass in moved["depth"]]
            assert sum(of_page) == pytest.approx(1, abs=1e-3)
            for mass, bar in zip(of_page, moved["bars"], strict=False):
                assert float(bar.removeprefix("scaleY(").removesuffix(")")) == pytest.approx(mass, abs=5e-4)
            browser.refresh()  # in the middle
            second = new_browser()
            second.get(address)
            last = json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])
            until(browser, lambda said: said["epoch"] == last["epoch"] and said["status"] == "running")
            until(second, lambda said: said["epoch"] == last["epoch"])
            process.send_signal(signal.SIGCONT)
            assert process.wait(60) == 0
            is_done = lambda said: said["status"] == "finished" and said["depth"]  # noqa: E731
            both = [until(one, is_done) for one in (browser, second)]
        record = json.loads((out / "record.json").read_text())
        for said in both:
            assert [float(mass) for mass in said["depth"]][: len(record["depth_pmf"])] == [
                pytest.approx(mass, rel=1e-3, abs=1e-8) for mass in record["depth_pmf"]
            ]
            assert float(said["mean"]) == pytest.approx(record["depth_mean"], rel=5e-3)
            assert float(said["energy"].replace(",", "")) == pytest.approx(record["free_energy"], rel=5e-3)
            assert float(said["accuracy"].removesuffix(" %")) == pytest.approx(record["accuracy"], abs=0.051)
            assert said["epoch"] == 1500
            assert said["title"] == "Spiral, omega = 6"
        assert errors(browser) == []
        asked = browser.execute_script("return performance.getEntriesByType('resource').map((one) => one.name)")
        assert asked
        assert all(one.startswith(address) for one in asked)
        second.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
        until(second, lambda _: second.execute_script("return innerWidth") == PHONE["width"])
        widths = (
            "[document.documentElement.scrollWidth, document.getElementById('spiral').getBoundingClientRect().width]"
        )
        widest, picture = second.execute_script(f"return {widths}")
        assert widest == PHONE["width"]
        assert picture > 700  # one moves it to and fro, and can read it


def test_a_wrong_token_is_one_sentence(tmp_path, browser):
    with watching(tmp_path) as address:
        browser.get(address[:-3] + "aa/")
        body = browser.execute_script("return document.body.textContent")
        assert body == "The token in the address is wrong: copy the whole address again.\n"


def test_a_path_outside_is_said_to_be_none(tmp_path, browser):
    hostile(tmp_path / "in" / "a", "a")
    hostile(tmp_path / "in" / "b", "b")
    hostile(tmp_path / "other", "c")
    with watching(tmp_path / "in") as address:
        browser.get(f"{address}#run=..%2Fother")
        said = until(browser, lambda said: said["notice"])
        assert said["notice"] == "There is no such run in the directory."
        assert "c" not in (said["title"], said["words"])


def test_hostile_names_are_text(tmp_path, browser):
    errors(browser)  # of other tests
    hostile(tmp_path / "in" / f"a {HOSTILE.replace('/', '')}", HOSTILE)
    head = "recipe,depth,omega,depth_mean,seconds"
    rows = "".join(f"{HOSTILE},normal,{omega},{omega / 3},1\n" for omega in (1, 2))
    (tmp_path / "in" / "t.csv").write_text(f"{head}\n{rows}")
    with watching(tmp_path / "in") as address:
        browser.get(address)
        run = "return document.querySelector('#list a')?.textContent"
        give_up = time.monotonic() + 20
        while not browser.execute_script(run):
            assert time.monotonic() < give_up
            time.sleep(0.05)
        assert browser.execute_script(run) == f"a {HOSTILE}"
        browser.execute_script("document.querySelector('#map button').click()")
        assert HOSTILE in browser.execute_script("return document.getElementById('row').textContent")
        browser.execute_script("document.querySelector('#list a').click()")
        said = until(browser, lambda said: said["status"] == "finished")
        assert said["title"] == f"{HOSTILE}: {HOSTILE}"
        columns = "return [...document.querySelectorAll('#settings td')].at(-1).textContent"
        assert browser.execute_script(columns) == HOSTILE
        assert browser.execute_script("return document.querySelectorAll('main img:not(#spiral)').length") == 0
        assert errors(browser) == []


def test_keys_read_the_curves_off_and_every_picture_has_its_numbers(tmp_path, browser):
    (tmp_path / "metrics.jsonl").write_text(text(*[line(k, [0.25, 0.75], 50) for k in range(1, 21)]))
    with watching(tmp_path) as address:
        browser.get(address)
        until(browser, lambda said: said["epoch"] == 20)
        key = """
            const svg = document.querySelector("#energy svg");
            svg.focus();
            for (const key of arguments[0]) svg.dispatchEvent(new KeyboardEvent("keydown", { key }));
            return svg.getAttribute("aria-label");
        """
        said = browser.execute_script(key, ["Home", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"])
        assert "At epoch 3: free energy 39.3, weight KL 5.00, expected NLL 33.3, depth KL 1.00 nats" in said
        opened = """
            for (const one of document.querySelectorAll("details")) one.open = true;
            await new Promise((done) => setTimeout(done, 200));
            return [...document.querySelectorAll("section:not([hidden]) details")].map((one) =>
              one.querySelectorAll("tr").length);
        """
        rows = browser.execute_script(f"return (async () => {{ {opened} }})()")
        assert len(rows) == 4
        assert min(rows) > 4


def test_a_grid_opens_into_its_runs(tmp_path, browser):
    head = "recipe,depth,omega,seed,accuracy,depth_mean,seconds"
    cells = [(omega, seed, 90 + omega - seed) for omega in (2, 6, 10) for seed in (1, 2)]
    rows = "".join(f"published,normal,{omega},{seed},{accuracy},1.5,3\n" for omega, seed, accuracy in cells)
    (tmp_path / "published-normal.csv").write_text(f"{head}\n{rows}")
    with watching(tmp_path) as address:
        browser.get(address)
        read = "return [...document.querySelectorAll('#map tr')].map((r) => [...r.cells].map((c) => c.textContent))"
        give_up = time.monotonic() + 20
        while not (table := browser.execute_script(read)):
            assert time.monotonic() < give_up
            time.sleep(0.05)
        assert table == [["", "2", "6", "10"], ["1", "91.0", "95.0", "99.0"], ["2", "90.0", "94.0", "98.0"]]
        browser.execute_script("document.querySelector('#map tbody tr:nth-child(2) td:nth-child(3) button').click()")
        opened = browser.execute_script("return [...document.querySelectorAll('#row tr')].map((r) => r.textContent)")
        assert "ω6" in opened
        assert "seed2" in opened
        assert "accuracy94" in opened
        assert browser.execute_script("return document.activeElement.id") == "row-head"


def test_a_directory_that_goes_and_a_server_that_ends_are_said(tmp_path, browser):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "metrics.jsonl").write_text(text(*[line(k, [0.25, 0.75], 50) for k in range(1, 6)]))
    with watching(folder) as address:
        browser.get(address)
        until(browser, lambda said: said["epoch"] == 5)
        shutil.rmtree(folder)
        said = until(browser, lambda said: said["notice"])
        assert said["notice"] == "The directory is gone. What is shown was read before."
        assert said["epoch"] == 5
    said = until(browser, lambda said: said["connection"] != "live")
    assert said["connection"] == "closed"


def test_the_band_of_the_depth_ends_at_0(tmp_path, browser):
    (tmp_path / "metrics.jsonl").write_text(text(*[line(k, depth_mean=0.1, depth_std=0.3) for k in range(1, 6)]))
    with watching(tmp_path) as address:
        browser.get(address)
        until(browser, lambda said: said["epoch"] == 5)
        at = "document.querySelector('#mean {}').getBoundingClientRect().bottom"
        band, axis = (browser.execute_script(f"return {at.format(one)}") for one in (".band", ".axis"))
        assert band == pytest.approx(axis, abs=1)
        assert browser.execute_script("return document.querySelector('#mean .legend b').textContent") == "0.100 ± 0.300"


def test_a_server_that_is_killed_is_said(tmp_path, browser):
    (tmp_path / "metrics.jsonl").write_text(text(*[line(k, [0.25, 0.75], 50) for k in range(1, 6)]))
    given = [*LEADLINE, "watch", str(tmp_path), "--no-open"]
    process = subprocess.Popen(given, stdout=subprocess.PIPE, text=True)
    address = process.stdout.readline().split()[-1]
    browser.get(address)
    until(browser, lambda said: said["epoch"] == 5)
    process.kill()
    process.communicate()
    until(browser, lambda said: said["connection"] == "lost")
    assert browser.execute_script("return document.getElementById('connection').textContent") == (
        "the server does not answer"
    )


def test_on_a_phone_nothing_is_wider_than_the_screen(tmp_path, new_browser):
    hostile(tmp_path / "a", "a")
    with watching(tmp_path) as address:
        phone = new_browser(dark=True)
        phone.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
        phone.get(f"{address}#run=a")
        until(phone, lambda said: said["status"] == "finished")
        assert phone.execute_script("return document.documentElement.scrollWidth") == PHONE["width"]
        paper = phone.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert paper == "rgb(20, 23, 27)"
