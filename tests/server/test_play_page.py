"""The page of `leadline play` in a real Chromium: what one sees is what the game is."""

import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from leadline.server.game import DETAILS, Game
from leadline.server.play import Games, play_page
from leadline.server.rules import Rules
from tests.server.serving import serving

SMALL = "#omega=4&points=60&width=4&epochs=400"
RULES = Rules(omega=4, points=60, width=4, epochs=400)

READ = """
const text = (id) => document.getElementById(id).textContent, pressed = document.querySelector("[name=view]:checked");
return {
  state: document.getElementById("state").dataset.state, run: text("run"), epoch: Number(text("epoch")),
  end: Number(text("end").replace(",", "")), mean: text("mean"), std: text("std"), accuracy: text("accuracy"),
  terms: ["free_energy", "expected_nll", "weight_kl", "depth_kl"].map(text), view: pressed.value,
  parts: ["noise", "weights", "depth"].map((part) => text("mean-" + part)),
  depths: [...document.querySelectorAll("#depths li")].map((one) => ({
    said: one.querySelector("span").textContent, faded: Number(one.querySelector("canvas").style.opacity),
    q: parseFloat(one.querySelector(".q").style.height), p: parseFloat(one.querySelector(".p").style.height),
  })),
  detail: document.getElementById("plane").dataset.detail,
  notice: document.getElementById("notice").hidden ? null : text("notice"), hash: location.hash,
  settings: Object.fromEntries([...document.getElementById("settings").elements].filter((one) => one.name)
    .map((one) => [one.name, one.value])), own: document.getElementById("clear").disabled ? 0 : 1,
};
"""

PIXEL = """
const canvas = document.getElementById("plane"), [x, y] = [arguments[0], arguments[1]];
return [...canvas.getContext("2d").getImageData(x * canvas.width, y * canvas.height, 1, 1).data];
"""


@pytest.fixture(scope="module")
def address():
    with serving(play_page()) as address:
        yield address


def until(browser, holds, seconds=60):
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


def opened(browser, address, settings=SMALL):
    """A window of its own game, at its beginning."""
    browser.get("about:blank")
    errors(browser)  # of other tests, whose servers have gone
    browser.get(address + settings)
    browser.execute_script("sessionStorage.clear()")
    browser.refresh()
    return until(browser, ready)


def ready(said):
    return said["state"] == "live" and said["depths"]


def still(epoch):
    return lambda said: said["epoch"] == epoch and said["run"] != "Pause" and said["detail"] == "still"


def click(browser, name):
    browser.execute_script("document.getElementById(arguments[0]).click()", name)


def turn(browser, name, value):
    """A control, as its user does."""
    browser.execute_script(
        "const one = document.getElementById('settings').elements[arguments[0]]; one.value = arguments[1];"
        "one.dispatchEvent(new Event('input', {bubbles: true}));",
        *(name, value),
    )


def errors(browser):
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def paused(browser):
    click(browser, "run")
    return until(browser, lambda said: said["run"] == "Go on" and said["detail"] == "still")


def ours(rules, epoch):
    """The same game without a page."""
    game = Game(rules)
    while game.epoch < epoch:
        game.step(epoch - game.epoch)
    return game


def test_the_page_says_what_the_game_says(address, browser):
    begun = opened(browser, address)
    assert (begun["epoch"], begun["end"], begun["run"]) == (0, 400, "Start")
    click(browser, "run")
    until(browser, lambda said: said["epoch"] >= 30)
    said = paused(browser)
    game = ours(RULES, said["epoch"])
    frame = game.frame(DETAILS["still"])
    q, p, noted = frame.depth_posterior, frame.depth_prior, frame.noted
    assert len(said["depths"]) == len(q)
    top = max(0.65, q.max(), p.max())
    for depth, one in enumerate(said["depths"]):
        assert one["q"] == pytest.approx(100 * q[depth] / top, abs=0.01)
        assert one["p"] == pytest.approx(100 * p[depth] / top, abs=0.01)
        assert one["faded"] == pytest.approx(0.25 + 0.75 * min(1, q[depth] / 0.3) if q[depth] else 0.35, abs=1e-4)
        assert one["said"] == ("–" if q[depth] == 0 else f"{100 * q[depth]:.{1 if q[depth] < 0.0995 else 0}f} %")
    mean = q @ np.arange(len(q))
    assert said["mean"] == f"{mean:.2f}"
    assert said["std"] == f"{np.sqrt(q @ (np.arange(len(q)) - mean) ** 2):.2f}"
    assert said["accuracy"] == f"{frame.accuracy:.1f} %"
    assert said["parts"] == [f"{frame.means[part]:.2f}" for part in ("noise", "weights", "depth")]
    for text, name in zip(said["terms"], ("free_energy", "expected_nll", "weight_kl", "depth_kl"), strict=True):
        assert float(text.replace(",", "")) == pytest.approx(noted[name], rel=0.005)
    for x, y in ((0.02, 0.02), (0.98, 0.5), (0.03, 0.97)):  # where no points lie
        n = len(frame.mixture)
        probability = frame.mixture[n - 1 - int(y * n), int(x * n)]
        toward = np.array([0xB2, 0x18, 0x2B] if probability > 0.5 else [0x21, 0x66, 0xAC])
        expected = 255 + 0.5 * abs(2 * probability - 1) * (toward - 255.0)
        np.testing.assert_allclose(browser.execute_script(PIXEL, x, y)[:3], expected, atol=8)
    click(browser, "picture")
    kept = "return document.getElementById('kept').textContent"
    until(browser, lambda said: browser.execute_script(kept) == "Saved as leadline-play.png.")
    assert errors(browser) == []


def test_pause_step_and_reload_lose_nothing(address, browser):
    opened(browser, address)
    for epoch in (1, 2):
        click(browser, "step")
        until(browser, still(epoch))
    click(browser, "run")
    until(browser, lambda said: said["epoch"] >= 12)
    browser.refresh()  # in the middle, while it runs
    later = until(browser, lambda said: ready(said) and said["epoch"] >= 20)
    assert later["run"] == "Pause"
    stopped = paused(browser)
    browser.refresh()
    again = until(browser, ready)
    assert (again["epoch"], again["mean"], again["terms"]) == (stopped["epoch"], stopped["mean"], stopped["terms"])
    assert again["run"] == "Go on"
    browser.execute_script("document.getElementById('speed').value = '25'")
    click(browser, "run")
    end = until(browser, lambda said: said["run"] == "Done")
    assert end["epoch"] == 400
    q = ours(RULES, 400).frame(DETAILS["still"]).depth_posterior
    assert end["mean"] == f"{q @ np.arange(len(q)):.2f}"
    click(browser, "again")
    assert until(browser, still(0))["run"] == "Start"
    assert errors(browser) == []


def test_the_spiral_winds_under_way(address, browser):
    opened(browser, address)
    click(browser, "run")
    until(browser, lambda said: said["epoch"] >= 6)
    for omega in ("5", "6", "7.5"):
        turn(browser, "omega", omega)
    wound = until(browser, lambda said: "omega=7.5" in said["hash"])
    assert wound["epoch"] >= 6
    assert wound["run"] == "Pause"
    later = until(browser, lambda said: said["epoch"] > wound["epoch"] and said["end"] > 400)
    assert later["end"] <= later["epoch"] + 400
    for _ in range(4):  # faster than frames come
        click(browser, "run")
    assert browser.execute_script(READ)["run"] == "Pause"
    stopped = paused(browser)
    time.sleep(0.5)
    assert browser.execute_script(READ)["epoch"] == stopped["epoch"]
    turn(browser, "width", "6")
    begun = until(browser, lambda said: "width=6" in said["hash"] and said["epoch"] == 0)
    assert begun["end"] == 400
    assert errors(browser) == []


def own_in(address):
    return address.partition("own=")[2].partition("&")[0]


def test_points_of_ones_own_by_hand_and_by_keyboard(address, browser):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    opened(browser, address)
    plane = browser.find_element("id", "plane")
    size = plane.size["width"]
    ActionChains(browser).move_to_element_with_offset(plane, 0.3 * size, -0.4 * size).click().perform()
    first = until(browser, lambda said: "own=" in said["hash"])
    x, y, label = (float(a) for a in own_in(first["hash"]).split(","))
    assert (x, y, label) == pytest.approx((0.75, 1.0, 0), abs=0.02)
    browser.execute_script("document.querySelector('[name=pen][value=\"1\"]').click()")
    plane.send_keys(Keys.ARROW_LEFT, Keys.ARROW_UP, Keys.SPACE)
    second = until(browser, lambda said: ";" in said["hash"])
    assert own_in(second["hash"]).split(";")[1] == "-0.05,0.05,1"
    click(browser, "undo")
    until(browser, lambda said: said["hash"] == first["hash"])
    click(browser, "clear")
    assert until(browser, lambda said: "own" not in said["hash"])["own"] == 0
    assert errors(browser) == []


def test_the_address_restores_all_settings(address, browser):
    settings = "#omega=6.25&noise=0.1&points=100&own=0.5,-0.25,1;-1,1,0&depth=poisson&recipe=written"
    settings += "&temperature=0.4&width=8&epochs=500&seed=9"
    said = opened(browser, address, settings)
    assert said["hash"] == settings
    expected = {"omega": "6.25", "noise": "0.1", "points": "100", "depth": "poisson", "recipe": "written", "start": ""}
    expected |= {"temperature": "0.4", "width": "8", "epochs": "500", "seed": "9"}
    assert {name: said["settings"][name] for name in expected} == expected
    assert said["end"] == 500
    click(browser, "step")
    stepped = until(browser, still(1))
    own = ((0.5, -0.25, 1), (-1, 1, 0))
    rules = Rules(6.25, 0.1, 100, own, "poisson", "written", 0.4, None, 8, 500, 9)
    q = ours(rules, 1).frame(DETAILS["still"]).depth_posterior
    assert stepped["mean"] == f"{q @ np.arange(len(q)):.2f}"
    browser.execute_script("location.hash = 'omega=3&epochs=300'")
    other = until(browser, lambda said: said["end"] == 300)
    assert (other["epoch"], other["settings"]["omega"], other["settings"]["depth"]) == (0, "3", "normal")


def test_what_is_wrong_is_said_on_the_page(address, browser):
    browser.get("about:blank")
    browser.get(f"{address}#omega=99")
    said = until(browser, lambda said: ready(said) and said["notice"])
    assert said["notice"] == "`omega` must lie between 0 and 30, got 99. So it begins with the usual settings."
    assert said["end"] == 1000
    opened(browser, address)
    turn(browser, "points", "0")
    said = until(browser, lambda said: said["notice"])
    assert said["notice"] == "`points` must be at least 2 together with your own, got 0 and 0."
    assert "points=60" in said["hash"]
    hostile = "#recipe=<img src=x onerror=alert(1)>"
    browser.get("about:blank")
    browser.get(address + hostile)
    said = until(browser, lambda said: ready(said) and said["notice"])
    assert "got '<img src=x onerror=alert(1)>'" in said["notice"]


def test_two_windows_have_two_games(browser, new_browser):
    games = Games()
    with serving(play_page(games)) as address:
        other = new_browser()
        opened(browser, address)
        opened(other, address, SMALL.replace("omega=4", "omega=9"))
        for one in (browser, other):
            click(one, "run")
        both = [until(one, lambda said: said["epoch"] >= 10) for one in (browser, other)]
        assert [said["settings"]["omega"] for said in both] == ["4", "9"]
        both = [paused(one) for one in (browser, other)]
        for said, omega in zip(both, (4, 9), strict=True):
            q = (
                ours(Rules(omega, points=60, width=4, epochs=400), said["epoch"])
                .frame(DETAILS["still"])
                .depth_posterior
            )
            assert said["mean"] == f"{q @ np.arange(len(q)):.2f}"
        n = len(games)
        window = browser.current_window_handle
        browser.execute_script("window.open(location.href)")  # with what this one has stored
        browser.switch_to.window(next(one for one in browser.window_handles if one != window))
        twin = until(browser, ready)
        assert twin["epoch"] == 0
        assert len(games) == n + 1
        browser.close()
        browser.switch_to.window(window)
        assert browser.execute_script(READ)["epoch"] == both[0]["epoch"]
        other.quit()


def test_a_game_that_has_ended_begins_again_and_a_server_that_has_is_told(browser):
    games = Games()
    with serving(play_page(games)) as address:
        opened(browser, address)
        click(browser, "step")
        until(browser, still(1))
        games.idle = 0.0
        click(browser, "step")
        time.sleep(0.5)
        games.idle = 100.0
        click(browser, "step")
        said = until(browser, lambda said: said["epoch"] <= 1 and said["notice"])
        assert "nobody looked at it" in said["notice"]
        click(browser, "step")
        until(browser, lambda said: said["epoch"] >= 1)
    click(browser, "step")
    said = until(browser, lambda said: said["state"] == "lost")
    assert "The server does not answer" in said["notice"]
    browser.get_log("browser")  # which has it, too


def test_a_wrong_token_shows_nothing(address, browser):
    browser.get(address[:-5] + "wrong/")
    assert "The token in the address is wrong" in browser.page_source
    assert "canvas" not in browser.page_source
    browser.get_log("browser")


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing(address, new_browser, dark):
    axe = pytest.importorskip("axe_core_python", reason="axe-core-python is not installed: the page is not examined")
    one = new_browser(390 if dark else 1280, 900, dark)
    opened(one, address)
    click(one, "step")
    until(one, still(1))
    one.execute_script((Path(axe.__file__).parent / "axe.min.js").read_text())
    found = one.execute_async_script("const [done] = arguments; axe.run().then(done)")
    assert [(item["id"], item["impact"]) for item in found["violations"]] == []
    assert len(found["passes"]) > 20
    width, inner = one.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert width <= inner
    one.quit()
