"""What the page of the game asks for, over HTTP."""

import http.client
import json
import signal
import subprocess
import sys
import threading
import time
from io import BytesIO
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image

from leadline.server.film import SIZE
from leadline.server.game import DETAILS, Game
from leadline.server.play import Games, packed, play_page
from leadline.server.rules import Rules
from tests.server.frames import unpacked
from tests.server.serving import ask, serving

SMALL = {"omega": 4, "points": 60, "width": 4, "epochs": 100}


class Table:
    """A page without a browser."""

    def __init__(self, address, settings=SMALL):
        self._parts, self._at = urlsplit(address), "games"
        status, said = self.post("", settings, raw=False)
        assert status == 200, said
        self.rules, self._at = said["rules"], f"games/{said['game']}/"

    def post(self, what, given=None, raw=True, body=None):
        client = http.client.HTTPConnection(self._parts.hostname, self._parts.port, timeout=60)
        client.request("POST", self._parts.path + self._at + what, body or json.dumps(given or {}))
        answer = client.getresponse()
        content = answer.read()
        client.close()
        return answer.status, content if raw and answer.status == 200 else json.loads(content)

    def frame(self, epochs=0, detail="moving", **seen):
        status, content = self.post("frame", {"epochs": epochs, "detail": detail, **seen})
        assert status == 200, content
        return unpacked(content)


@pytest.fixture(scope="module")
def address():
    with serving(play_page()) as address:
        yield address


def same(a, b):
    """But for the time of day, and the number of the story."""
    (said, planes), (other, others) = a, b
    unlike = ("trained_at", "story")
    assert {name: one for name, one in said.items() if name not in unlike} == {
        name: one for name, one in other.items() if name not in unlike
    }
    assert planes.keys() == others.keys()
    for name in planes:
        np.testing.assert_array_equal(planes[name], others[name])


def test_a_frame_over_the_wire_is_the_games(address):
    table, game = Table(address), Game(Rules.of(SMALL))
    assert table.rules == game.rules.to_json()
    same(table.frame(), unpacked(packed(game.frame(DETAILS["moving"]), game.news(0, 0, 0))))
    while (epoch := table.frame()[0]["epoch"]) < 20:  # a slow machine cuts steps short
        table.frame(min(5, 20 - epoch))
    while game.epoch < 20:
        game.step(20 - game.epoch)
    ours = unpacked(packed(game.frame(DETAILS["still"]), game.news(0, 0, 0)))
    said, planes = table.frame(0, "still")
    assert said["grid"] == DETAILS["still"].grid
    same((said, planes), ours)


def test_two_games_do_not_meet(address):
    """Though they train at the same time."""
    tables = [Table(address), Table(address, SMALL | {"seed": 2})]
    ends = {}

    def play(i):
        while (frame := tables[i].frame(20))[0]["epoch"] < 100:
            pass
        ends[i] = frame

    threads = [threading.Thread(target=play, args=(i,)) for i in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for i, seed in enumerate((1, 2)):
        game = Game(Rules.of(SMALL | {"seed": seed}))
        while game.epoch < 100:
            game.step(100)
        frame = game.frame()
        assert ends[i][0]["q"] == frame.depth_posterior.tolist()
        np.testing.assert_array_equal(ends[i][1]["mixture"], np.rint(255 * frame.mixture))


def test_settings_change_under_way_or_begin_again(address):
    table = Table(address)
    table.frame(30)
    before = table.frame()[0]
    assert json.loads(table.post("rules", SMALL | {"omega": 9})[1])["rules"]["omega"] == 9
    said = table.frame()[0]
    assert said["epoch"] == before["epoch"] > 0
    assert said["end"] == before["epoch"] + 100
    assert json.loads(table.post("rules")[1])["rules"]["omega"] == 9
    table.post("rules", SMALL | {"omega": 9, "width": 5})
    assert table.frame()[0]["epoch"] == 0
    table.frame(5)
    table.post("again")
    assert table.frame()[0]["epoch"] == 0


@pytest.mark.parametrize(
    ("what", "given", "said"),
    [
        ("rules", {"omega": 99}, "`omega` must lie between 0 and 30, got 99."),
        ("frame", {"detail": "finest"}, "`detail` must be one of moving, still, got 'finest'."),
        ("frame", {"detail": "moving", "epochs": 10**6}, "`epochs` must be at most 1000, got 1000000."),
        ("frame", {"detail": "moving", "rows": -1}, "`rows` must be a whole number of at least 0, got -1."),
        ("frame", [1], "`settings` must be named values, got [1]."),
    ],
)
def test_what_is_wrong_is_refused_and_the_game_goes_on(address, what, given, said):
    table = Table(address)
    status, answer = table.post(what, given)
    assert (status, answer) == (400, {"said": said})
    assert table.frame(1)[0]["epoch"] == 1


def test_what_is_no_json_or_too_much_is_refused(address):
    table = Table(address)
    assert table.post("rules", body="{")[0] == 400
    assert table.post("rules", body="[" * 50_000)[0] == 400
    status, answer = table.post("rules", body=" " * 2**17)
    assert (status, answer["said"]) == (400, "`settings` must be at most 65536 bytes of JSON.")


def test_who_has_no_token_or_comes_from_elsewhere_is_refused(address):
    path = urlsplit(address).path
    for wrong in ("/games", path[:-2] + "x/games", "/choices"):
        assert ask(address, path=wrong, method="POST")[0] == 403
    assert ask(address, "games", "POST", Origin="http://evil.example")[0] == 403
    assert ask(address, "games")[0] in (404, 405)


def test_there_are_only_so_many_games_and_those_end_that_nobody_looks_at():
    games = Games(most=2)
    with serving(play_page(games)) as address:
        first, _ = Table(address), Table(address)
        third = Table.__new__(Table)
        third._parts, third._at = urlsplit(address), "games"
        said = {"said": "2 games are played already: close a window, and wait 3 minutes."}
        assert third.post("", SMALL) == (400, said)
        games.idle = 0.06
        time.sleep(0.1)
        status, said = first.post("frame", {"detail": "moving"})
        assert (status, said) == (404, {"said": "The game has ended: nobody looked at it for 0.001 minutes."})
        games.idle = 60
        Table(address)
        assert len(games) == 2


def test_pictures_and_films(address):
    table = Table(address)
    table.frame(10)
    status, content = table.post("picture", {"dark": True})
    image = Image.open(BytesIO(content))
    assert (status, image.format, image.size) == (200, "PNG", tuple(2 * side for side in SIZE))
    epoch = table.frame()[0]["epoch"]
    status, content = table.post("film")
    film = Image.open(BytesIO(content))
    assert (status, film.format, film.size, film.n_frames) == (200, "GIF", SIZE, epoch + 1)


def test_the_command_says_where_and_ends_with_ctrl_c():
    command = [sys.executable, "-m", "leadline", "play", "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    words, address = process.stdout.readline().strip().rsplit(" ", 1)
    assert words == "play at"
    assert "<h1>How deep must it be?</h1>" in ask(address)[2]
    assert Table(address).frame(2)[0]["epoch"] == 2
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0
