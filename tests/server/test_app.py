"""Who may ask a local page, what every answer says to the browser, and what goes to those who listen."""

import asyncio
import importlib
import itertools
import signal
import socket
import subprocess
import sys
import time

import pytest
from starlette.requests import Request
from starlette.routing import Route

from leadline import InvalidArgumentError
from leadline.report.web import COLOURS
from leadline.server.app import listening, make_page
from leadline.server.events import Bell, Event, stream
from tests.server.serving import Listener, ask, serving

BELL = Bell()
SAID = []
"""What the page of these tests has to say."""


def news(since):
    first = 0 if since is None else int(since) + 1
    return [Event("word", one, str(i)) for i, one in enumerate(SAID)][first:]


@pytest.fixture(scope="module")
def page():
    return make_page("watch", [Route("/events", lambda request: stream(request, BELL, news))], [BELL])


@pytest.fixture(scope="module")
def address(page):
    with serving(page) as address:
        yield address


def test_the_page_and_its_files_are_there(address):
    status, headers, text = ask(address)
    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert text.startswith("<!DOCTYPE html>")
    for name, kind in (("pages.css", "text/css"), ("stream.js", "text/javascript"), ("style.css", "text/css")):
        status, headers, _ = ask(address, name)
        assert (status, headers["content-type"]) == (200, f"{kind}; charset=utf-8")
    assert ask(address, "nothing.js")[0] == 404


def test_the_style_is_that_of_the_report(address):
    from leadline.report import web

    style = ask(address, "style.css")[2]
    page = web.rendered("head.html", title="")
    assert page[page.index("<style>") + 8 : page.index("</style>")].strip() in style
    assert f"--depth: {COLOURS['depth']};" in style


def test_every_answer_has_the_headers(address):
    for said in (ask(address), ask(address, "nothing"), ask(address, path="/wrong/")):
        headers = said[1]
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert "server" not in headers


@pytest.mark.parametrize("path", ["/", "/wrong/", "//", "/%C3%A9/", "/events", "/{token}x/", "/{half}/", "*"])
def test_without_the_token_nothing_is_said(address, page, path):
    path = path.format(token=page.token, half=page.token[:-1])
    status, _, text = ask(address, path=path)
    assert status == 403
    assert text == "The token in the address is wrong: copy the whole address again.\n"


def test_without_its_last_stroke_the_address_leads_to_the_page(address, page):
    status, headers, _ = ask(address, path=f"/{page.token}")
    assert (status, headers["location"]) == (307, f"/{page.token}/")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[", "169.254.1.1"])
def test_another_name_of_the_machine_is_refused(address, host):
    status, _, text = ask(address, Host=host)
    assert (status, text) == (403, "This page is for this machine alone: call it 127.0.0.1.\n")


@pytest.mark.parametrize("host", ["localhost", "localhost:9000", "127.0.0.1:9000", "LOCALHOST"])
def test_its_own_names_are_taken_with_any_port(address, host):
    """As they are behind a tunnel."""
    assert ask(address, Host=host)[0] == 200


def test_a_page_from_elsewhere_may_not_ask(address):
    for origin in ("http://evil.example", "null", address.split("/")[2]):
        assert ask(address, Origin=origin)[0] == 403
    assert ask(address, Origin="/".join(address.split("/")[:3]))[0] == 200


def test_tokens_are_long_and_never_the_same():
    tokens = {make_page("watch").token for _ in range(20)}
    assert len(tokens) == 20
    assert min(map(len, tokens)) >= 43  # 256 bits


def test_it_listens_on_this_machine_alone():
    with listening(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


def test_a_port_that_is_taken_is_one_sentence():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InvalidArgumentError, match=rf"^`port` {port} cannot be used: Address already in use; "):
            listening(port)
    with pytest.raises(InvalidArgumentError, match=r"^`port` must be "):
        listening(70000)


def test_all_who_listen_hear_all_and_go_on_where_they_were(address):
    SAID.clear()
    first, second = Listener(address), Listener(address)
    assert first.answer.getheader("content-type").startswith("text/event-stream")
    for i in range(5):
        SAID.append({"i": i, "text": "a\nb"})
        BELL.ring()
    for one in (first, second):
        heard = one.until(lambda heard: len(heard) == 5)
        assert [data["i"] for _, data, _ in heard] == list(range(5))
    later = Listener(address, Last_Event_ID="2")
    assert [data["i"] for _, data, _ in later.until(lambda heard: len(heard) == 2)] == [3, 4]
    for one in (first, second, later):
        one.close()


def test_many_pages_hear_less_often():
    """A hundredth of a second for each, so that together they take no more than a few do."""

    async def seconds_between(others):
        bell, counted = Bell(), itertools.count()
        bell.pages = others
        request = Request({"type": "http", "headers": []})
        said = stream(request, bell, lambda since: [Event("word", next(counted))]).body_iterator
        assert await anext(said) == b"retry: 1000\n\n"
        bell.ring()
        assert b"data: 0" in await anext(said)
        begin = time.monotonic()
        bell.ring()
        assert b"data: 1" in await anext(said)
        assert bell.pages == others + 1
        await said.aclose()
        assert bell.pages == others
        return time.monotonic() - begin

    assert asyncio.run(seconds_between(39)) >= 0.4
    assert asyncio.run(seconds_between(0)) < 0.3


def test_streams_end_with_the_server():
    bell = Bell()
    page = make_page("watch", [Route("/events", lambda request: stream(request, bell, lambda _: []))], [bell])
    with serving(page) as address:
        listener = Listener(address)
        begin = time.monotonic()
    assert listener.ended.wait(5)
    assert time.monotonic() - begin < 2
    assert [name for name, *_ in listener.heard] == ["closed"]


CODE = """
import sys
from leadline.server.app import make_page, serve
serve(make_page("watch"), 0, False, lambda address: print(address, flush=True))
print("ended", flush=True)
"""


def test_ctrl_c_ends_it_quietly():
    process = subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address = process.stdout.readline().strip()
    assert ask(address)[0] == 200
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=10) == ("ended\n", "")
    assert process.returncode == 0


def test_nothing_of_it_is_imported_without_need():
    code = "import sys, leadline, leadline.cli.app; print([m for m in ('starlette', 'uvicorn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_the_extra_it_says_how_to_install_it(monkeypatch):
    pages = importlib.import_module("leadline.cli.pages")
    monkeypatch.setattr(pages, "find_spec", lambda name: None)
    with pytest.raises(InvalidArgumentError) as error:
        pages.check_server("watch")
    assert str(error.value) == (
        '`leadline watch` needs starlette and uvicorn; `pip install "leadline[server]"` brings what it needs.'
    )
