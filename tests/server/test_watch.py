"""What `leadline watch` reads of a directory, and what it tells those who look."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

from leadline import InvalidArgumentError
from leadline.cli.pages import watch
from leadline.server import curves, tails
from leadline.server.app import LESS_URGENT
from leadline.server.curves import MEANS, MOST_POINTS, Curves
from leadline.server.places import Place, number
from leadline.server.regions import Regions
from leadline.server.tails import Tail
from leadline.server.watch import Watcher, make_watch
from tests.server.runs import hostile, line, spiral, text, training
from tests.server.serving import Listener, ask, serving
from tests.tolerances import CLOSED_FORM

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e'\""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return spiral(tmp_path_factory.mktemp("watched") / "run")


@pytest.fixture
def watched(request):
    """Serves a directory as long as the test runs: its address and its watcher."""
    with ExitStack() as stack:

        def serve(folder):
            watcher = Watcher(Path(folder))
            stack.enter_context(watcher.following())
            return stack.enter_context(serving(make_watch(watcher))), watcher

        yield serve


def first(address, file, name):
    """The first event of that name."""
    listener = Listener(address, file)
    heard = listener.until(lambda heard: any(event == name for event, *_ in heard))
    listener.close()
    return next(data for event, data, _ in heard if event == name)


# The lines of a file that grows


def tail_of(path):
    place = Place(path.parent)
    tail = Tail(lambda: place.open(path.name))
    return lambda: tail.new(place.changed(path.name))


def test_every_line_is_read_once_and_whole(tmp_path):
    path = tmp_path / "metrics.jsonl"
    new = tail_of(path)
    assert new() == (False, [])
    with path.open("w", buffering=1) as file:
        for written, expected in (("a\nb", [b"a"]), ("c", []), ("\n\nd\n", [b"bc", b"", b"d"]), ("", [])):
            file.write(written)
            file.flush()
            assert new() == (False, expected)


def test_a_file_that_was_cut_and_has_grown_again_is_read_anew(tmp_path):
    path = tmp_path / "metrics.jsonl"
    new = tail_of(path)
    path.write_text("1\n2\n3\n")
    assert new() == (False, [b"1", b"2", b"3"])
    with path.open("r+") as file:  # as a training does that goes back
        file.truncate(2)
        file.seek(2)
        file.write("4\n5\n6\n7\n")
    assert new() == (True, [b"1", b"4", b"5", b"6", b"7"])


def test_a_file_that_is_replaced_or_gone_is_read_anew(tmp_path):
    path = tmp_path / "metrics.jsonl"
    new = tail_of(path)
    path.write_text("1\n")
    assert new() == (False, [b"1"])
    (tmp_path / "other").write_text("1\n2\n")
    (tmp_path / "other").replace(path)
    assert new() == (True, [b"1", b"2"])
    path.unlink()
    assert new() == (True, [])
    assert new() == (False, [])
    path.write_text("3\n")
    assert new() == (False, [b"3"])


def test_a_large_file_is_read_bit_by_bit_and_a_line_without_end_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(tails, "AT_ONCE", 1000)
    monkeypatch.setattr(tails, "LONGEST", 5000)
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(f"{i:09d}\n" for i in range(250)))
    new, found = tail_of(path), []
    for _ in range(3):
        found += new()[1]
    assert found == [f"{i:09d}".encode() for i in range(250)]
    with path.open("a") as file:
        file.write("x" * 20000)
    for _ in range(25):
        assert new() == (False, [])
    with path.open("a") as file:
        file.write("\nlast\n")
    assert new()[1][-1] == b"last"


# The curves


def test_a_point_is_the_mean_over_the_restarts_and_the_mixture(finished):
    lines = (finished / "metrics.jsonl").read_bytes().splitlines()
    found = Curves()
    found.add(lines)
    said = [json.loads(one) for one in lines]
    for k, point in enumerate(found.points):
        each = [one for one in said if one["epoch"] == k + 1]
        assert point["epoch"] == k + 1
        for name in MEANS:
            assert point[name] == pytest.approx(np.mean([one[name] for one in each]), rel=CLOSED_FORM["float32"])
        mean = np.mean([one["depth_mean"] for one in each])
        second = np.mean([one["depth_std"] ** 2 + one["depth_mean"] ** 2 for one in each])
        assert point["depth_mean"] == pytest.approx(mean, rel=CLOSED_FORM["float32"])
        assert point["depth_std"] == pytest.approx(np.sqrt(second - mean**2), rel=1e-5)
        assert point["validation_nll_each"] == [one["validation_nll"] for one in each]
    assert found.last["epoch"] == found.epochs == 60
    masses = [one["depth_pmf"] for one in said[-2:]]
    size = max(map(len, masses))
    padded = np.array([one + [0] * (size - len(one)) for one in masses])
    np.testing.assert_allclose(found.depth["mean"], padded.mean(axis=0), rtol=1e-6)


def test_lines_in_any_pieces_give_the_same_points(finished):
    lines = (finished / "metrics.jsonl").read_bytes().splitlines()
    whole, pieces = Curves(), Curves()
    whole.add(lines)
    for i in range(0, len(lines), 3):
        pieces.add(lines[i : i + 3])
    assert pieces.points == whole.points
    assert pieces.last == whole.last
    assert pieces.depth == whole.depth
    assert pieces.restarts == whole.restarts


def test_many_epochs_are_thinned_evenly_and_the_last_is_known():
    found = Curves()
    for start in range(1, 5001, 100):
        found.add(text(*[line(k) for k in range(start, start + 100)]).encode().splitlines())
    epochs = [point["epoch"] for point in found.points]
    assert len(epochs) <= MOST_POINTS
    assert epochs == [1, *range(8, 5001, 8)]
    assert found.last["epoch"] == 5000


def test_a_training_that_goes_back_takes_its_points_along():
    found = Curves()
    found.add(text(*[line(k) for k in range(1, 11)]).encode().splitlines())
    generation = found.generation
    found.add(text(line(8, validation_nll=9.0), line(9)).encode().splitlines())
    assert [point["epoch"] for point in found.points] == list(range(1, 10))
    assert found.points[7]["validation_nll"] == 9.0
    assert found.generation > generation


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"{",
        b"[1]",
        b"null",
        b"\xff",
        json.dumps(line(-1)).encode(),
        json.dumps(line(3, free_energy=None)).encode(),
        json.dumps(line(3, free_energy=float("nan"))).encode(),
        json.dumps(line(3, depth_support="ab c")).encode(),
        json.dumps(line(3, [0.5, "x"], 9)).encode(),
        json.dumps(line(3, [0.5, float("inf")], 9)).encode(),
        b"[" * 100_000,
    ],
)
def test_what_says_something_else_is_passed_over(wrong):
    found = Curves()
    found.add([*text(line(1), line(2)).encode().splitlines(), wrong, *text(line(3)).encode().splitlines()])
    assert [point["epoch"] for point in found.points] == [1, 2, 3]
    assert found.points[2]["free_energy"] == pytest.approx(100 / 3 + 6)


def test_the_time_left_is_that_of_the_last_pace():
    found = Curves()
    found.add(text(*[line(k, [1.0], 400) for k in range(1, 101)]).encode().splitlines())
    assert found.seconds_left() == pytest.approx(3.0)


def test_a_record_without_lines_has_its_own_history():
    rows = [[4.0, 6.0], [2.0, 3.0], [1.0, 2.0]]
    history = dict.fromkeys((*MEANS, *curves.EACH), rows) | {"depth_std": [[0.0, 0.0]] * 3}
    found = Curves()
    found.add_history(history, 101)
    assert [point["epoch"] for point in found.points] == [1, 51, 101]
    assert [point["free_energy"] for point in found.points] == [5.0, 2.5, 1.5]
    assert found.points[0]["depth_std"] == 1.0


# The directory


def test_links_lead_nowhere(tmp_path, finished):
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    shutil.copytree(finished, outside / "run")
    (outside / "t.csv").write_text("recipe,depth,depth_mean,seconds\na,normal,1,2\n")
    (inside / "linked").symlink_to(outside / "run")
    (inside / "t.csv").symlink_to(outside / "t.csv")
    (inside / "half").mkdir()
    (inside / "half" / "record.json").symlink_to(outside / "run" / "record.json")
    place = Place(inside)
    assert place.find() == ([], [])
    for name in ("linked/record.json", "t.csv", "half/record.json", "../out/t.csv", "half/../../out/t.csv"):
        with pytest.raises(OSError, match="not in the directory"):
            place.read(name)
    with pytest.raises(OSError, match="not in the directory"):
        place.read(str(outside / "t.csv"))
    assert Place(outside).find() == (["run"], ["t.csv"])


def test_a_directory_that_is_itself_a_link_is_the_users_own_word(tmp_path, finished):
    (tmp_path / "link").symlink_to(finished)
    assert Place(tmp_path / "link").find() == ([""], [])


def test_pipes_and_large_files_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "record.json")
    (tmp_path / "large.csv").write_bytes(b"x" * 2000)
    place = Place(tmp_path)
    with pytest.raises(OSError, match="no regular file"):
        place.read("record.json")
    with pytest.raises(OSError, match="more than 1000 bytes"):
        place.read("large.csv", 1000)


def test_a_writer_is_one_that_is_alive(tmp_path):
    place, lock = Place(tmp_path), tmp_path / ".leadline.lock"
    assert not place.writer("")
    lock.write_text(f"leadline: process {os.getpid()}\n")
    assert place.writer("")
    process = subprocess.Popen(["true"])
    process.wait()
    lock.write_text(f"leadline: process {process.pid}\n")
    assert not place.writer("")
    lock.write_text("mine\n")
    assert not place.writer("")


@pytest.mark.parametrize(
    ("given", "expected"), [("3", 3), ("3.0", 3.0), ("-1e-3", -0.001), ("nan", "nan"), ("inf", "inf"), ("a", "a")]
)
def test_cells_are_numbers_where_they_are(given, expected):
    assert number(given) == expected
    assert type(number(given)) is type(expected)


# The page


def test_the_lines_of_what_is_finished_wait_until_somebody_looks(tmp_path):
    hostile(tmp_path / "a", "a")
    watcher = Watcher(tmp_path)
    watcher.look(closely=True)
    run = watcher.runs["a"]
    assert (run.status, run.curves.last) == ("finished", None)
    assert watcher.open("a")
    assert run.curves.last["epoch"] == 3
    assert not watcher.open("../a")


def test_a_finished_run_is_what_its_record_says(finished, watched):
    address, _ = watched(finished)
    record = json.loads((finished / "record.json").read_text())
    listed = first(address, "all", "all")
    [entry] = listed["runs"]
    assert (entry["run"], entry["status"], entry["title"]) == ("", "finished", "Spiral, omega = 4")
    for name in ("accuracy", "nll", "depth_mean", "free_energy", "omega"):
        assert entry["values"][name] == record[name]
    said = first(address, "one?run=", "run")
    assert said["anew"]
    assert said["now"]["depth"]["mean"] == record["depth_pmf"]
    assert said["record"]["depth_mean"] == record["depth_mean"]
    assert said["record"]["free_energy"] == record["free_energy"]
    assert said["points"]["epoch"] == list(range(1, 61))
    assert said["record"]["measures"][0]["value"].rstrip(" %") in f"{record['accuracy']:.2f}"
    assert said["now"]["epochs"] == 60


def test_new_lines_come_to_all_who_look_and_only_those(tmp_path, watched):
    path = tmp_path / "metrics.jsonl"
    path.write_text(text(*[line(k, [0.5, 0.5], 100) for k in range(1, 6)]))
    address, _ = watched(tmp_path)
    both = [Listener(address, "one?run=") for _ in range(2)]
    for one in both:
        one.until(lambda heard: heard)
    for k in (6, 7):
        with path.open("a") as file:
            file.write(text(line(k, [0.4, 0.6], 100))[:50])
            file.flush()
            time.sleep(0.2)
            file.write(text(line(k, [0.4, 0.6], 100))[50:])
        for one in both:
            one.until(lambda heard, k=k: heard[-1][1]["now"]["last"]["epoch"] == k)
    for one in both:
        [(_, begun, _), *later] = [event for event in one.heard if event[0] == "run"]
        assert begun["anew"]
        assert [begun["points"]["epoch"], *[data["points"].get("epoch") for _, data, _ in later]] == [
            [1, 2, 3, 4, 5], [6], [7]
        ]  # fmt: skip
        assert not any(data["anew"] for _, data, _ in later)
        assert later[-1][1]["now"]["depth"] == {"epoch": 7, "mean": [0.4, 0.6], "each": [[0.4, 0.6]]}
        assert later[-1][1]["now"]["status"] == "running"
        one.close()
    again = Listener(address, "one?run=", Last_Event_ID=both[0].heard[0][2])  # as a browser that was cut off
    [(_, data, _)] = again.until(lambda heard: heard)
    assert (data["anew"], data["points"]["epoch"]) == (False, [6, 7])
    again.close()


def test_a_file_that_is_cut_begins_the_curves_anew(tmp_path, watched):
    path = tmp_path / "metrics.jsonl"
    path.write_text(text(*[line(k) for k in range(1, 10)]))
    address, _ = watched(tmp_path)
    listener = Listener(address, "one?run=")
    listener.until(lambda heard: heard)
    with path.open("r+") as file:
        content = text(*[line(k, validation_nll=7.0) for k in range(1, 5)])
        file.truncate(0)
        file.write(content)
    heard = listener.until(lambda heard: heard[-1][1]["now"]["last"]["epoch"] == 4)
    assert heard[-1][1]["anew"]
    assert heard[-1][1]["points"]["validation_nll"] == [7.0] * 4
    listener.close()


@pytest.mark.parametrize(
    "run",
    ["..", "../other", "../other/run", "/etc", "a/../../other/run", "linked", "..\\other", ".", "%2e%2e/other/run"],
)
@pytest.mark.parametrize("file", ["one", "picture", "regions"])
def test_a_path_outside_is_refused(tmp_path, watched, run, file):
    inside = tmp_path / "in"
    hostile(inside / "a", "a")
    hostile(tmp_path / "other" / "run", "b")
    (tmp_path / "other" / "run" / "spiral.png").write_bytes(b"\x89PNG")
    (inside / "linked").symlink_to(tmp_path / "other" / "run")
    address, watcher = watched(inside)
    assert list(watcher.runs) == ["a"]
    status, _, said = ask(address, f"{file}?run={quote(run, safe='%')}")
    assert (status, said) == (404, "There is no such run in the directory.\n")


def test_a_picture_is_leadlines_or_none(finished, watched, tmp_path):
    shutil.copytree(finished, tmp_path / "a")
    shutil.copytree(finished, tmp_path / "b")
    (tmp_path / "b" / "spiral.png").write_bytes(b"\x89PNG of somebody else's")
    address, _ = watched(tmp_path)
    status, headers = 200, {}
    parts = [ask_bytes(address, f"picture?run={name}") for name in "ab"]
    (status, headers, content), (other, *_) = parts
    assert (status, headers["content-type"], other) == (200, "image/png", 404)
    assert content == (finished / "spiral.png").read_bytes()


def ask_bytes(address, file):
    import urllib.error
    import urllib.request

    try:
        with urllib.request.urlopen(address + file) as answer:
            return answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {}, b""


def test_hostile_names_are_told_as_text_in_json(tmp_path, watched):
    hostile(tmp_path / "a<b>&", HOSTILE)
    address, _ = watched(tmp_path)
    [entry] = first(address, "all", "all")["runs"]
    assert entry["run"] == "a<b>&"
    assert entry["title"].startswith("</script><img src=x onerror=alert(1)>\\u202e")
    said = first(address, f"one?run={quote('a<b>&')}", "run")
    assert said["record"]["columns"] == [HOSTILE.replace("\u202e", "\\u202e")]


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "null",
        '{"depth_pmf": 3}',
        '{"recipe": 1, "depth_pmf": NaN}',
        json.dumps({"history": {"free_energy": "abc"}}),
    ],
)
def test_a_damaged_record_takes_nobody_down(tmp_path, watched, content):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "record.json").write_text(content)
    hostile(tmp_path / "b", "b")
    address, _ = watched(tmp_path)
    assert [one["run"] for one in first(address, "all", "all")["runs"]] == ["a", "b"]
    first(address, "one?run=a", "run")


def test_what_a_record_says_wrongly_is_left_out(tmp_path, watched):
    """Numbers where lists should be, and numbers that are none."""
    out = hostile(tmp_path / "a", "a")
    record = json.loads((out / "record.json").read_text())
    for name, wrong in (("depth_pmf", "x"), ("accuracy", "x"), ("columns", 3), ("free_energy_terms", [1])):
        (out / "record.json").write_text(json.dumps(record | {name: wrong}))
        watcher = Watcher(tmp_path)
        watcher.look(closely=True)
        watcher.open("a")
        for run, said in (("a", "run"), (None, "all")):
            [event] = watcher.news(run, None)
            assert event.name == said
    (out / "record.json").write_text(json.dumps(record | {"accuracy": float("nan"), "seconds": float("inf")}))
    address, _ = watched(tmp_path)
    assert "accuracy" not in first(address, "all", "all")["runs"][0]["values"]


def test_a_directory_that_is_removed_is_said_and_one_that_comes_back_is_shown(tmp_path, watched):
    folder = tmp_path / "in"
    hostile(folder / "a", "a")
    address, _ = watched(folder)
    one, everything = Listener(address, "one?run=a"), Listener(address, "all")
    for listener in (one, everything):
        listener.until(lambda heard: heard)
    shutil.rmtree(folder)
    assert one.until(lambda heard: heard[-1][0] == "gone")[-1][1] == {"folder": True}
    assert not everything.until(lambda heard: not heard[-1][1]["is_there"])[-1][1]["runs"]
    hostile(folder / "a", "a")
    assert one.until(lambda heard: heard[-1][0] == "run")[-1][1]["anew"]
    assert everything.until(lambda heard: heard[-1][1]["is_there"])[-1][1]["runs"]
    for listener in (one, everything):
        listener.close()


def test_tables_become_rows_and_chunks_are_under_way(tmp_path, watched):
    head = "recipe,depth,omega,seed,epochs,accuracy,depth_mean,seconds,version\n"
    (tmp_path / "published-normal.csv").write_text(f"{head}published,normal,2.0,1,10,97.5,1.5,3,0\n")
    (tmp_path / "chunks.csv").write_text("recipe,depth,runs,seconds\npublished,normal,1,3\n")
    (tmp_path / "mine.csv").write_text(head.replace("recipe", "mine"))
    name = "0123456789abcdef"
    (tmp_path / "checkpoints" / name).mkdir(parents=True)
    (tmp_path / "checkpoints" / name / f"{name}-0000-000000017-000000.checkpoint").write_bytes(b"")
    address, _ = watched(tmp_path)
    said = first(address, "all", "all")
    [table] = said["tables"]
    assert table["name"] == "published-normal.csv"
    [row] = table["rows"]
    assert row == {
        "recipe": "published", "depth": "normal", "omega": 2.0, "seed": 1, "epochs": 10, "accuracy": 97.5,
        "depth_mean": 1.5, "seconds": 3, "version": 0,
    }  # fmt: skip
    assert said["under_way"] == [{"name": name, "epoch": 17}]


def test_a_training_that_ended_without_a_record_is_not_called_running(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(text(line(1), line(2)))
    watcher = Watcher(tmp_path)
    watcher.look(closely=True)
    assert watcher.runs[""].status == "running"
    long_ago = time.time() - 60
    os.utime(tmp_path / "metrics.jsonl", (long_ago, long_ago))
    watcher.look(closely=True)
    assert watcher.runs[""].status == "stopped"


def test_it_follows_a_training_that_runs_and_changes_nothing(tmp_path, watched):
    out = tmp_path / "run"
    address, watcher = watched(tmp_path)
    begun = lambda: any(out.glob("checkpoints/*.checkpoint"))  # noqa: E731
    with training(out, begun, "--checkpoint-every", 0.2, epochs=8000) as process:
        give_up = time.monotonic() + 60
        while "run" not in watcher.runs or Regions.source(watcher.runs["run"]) is None:
            assert time.monotonic() < give_up
            time.sleep(0.02)
        before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
        listener = Listener(address, "one?run=run")
        listener.until(lambda heard: heard and heard[-1][1]["now"]["last"])
        status, _, said = ask(address, "regions?run=run")
        assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before
        process.send_signal(signal.SIGCONT)
        assert process.wait(60) == 0
    heard = listener.until(lambda heard: heard[-1][1]["now"]["status"] == "finished")
    seen = [data["now"] for _, data, _ in heard]
    assert seen[0]["status"] == "running"
    assert len({tuple(one["depth"]["mean"]) for one in seen}) > 1
    record = json.loads((out / "record.json").read_text())
    assert seen[-1]["last"]["epoch"] == record["epochs"]
    assert seen[-1]["depth"]["mean"] == record["depth_pmf"]
    assert status == 200
    drawn = json.loads(said)
    assert drawn["epoch"] < record["epochs"]
    assert len(drawn["class"]) == drawn["n"] ** 2
    assert set(drawn["class"]) == {0, 1}
    assert {path.name for path in out.iterdir()} == {"metrics.jsonl", "record.json", "spiral.png"}
    listener.close()


def test_the_regions_of_a_checkpoint_are_those_of_the_training(tmp_path):
    """Compared with the picture of the finished training's own networks, class by class."""
    from leadline.inference.restarts import Restarts
    from leadline.likelihoods import CategoricalLikelihood
    from leadline.plots import decision_grid
    from leadline.server.regions import N
    from leadline.studies.spiral import spiral_problem
    from leadline.training.loop import train
    from leadline.training.run import Watch
    from leadline.training.settings import Settings

    settings = Settings(epochs=150, n_restarts=2, width=8).resolved(CategoricalLikelihood)
    problem = spiral_problem(2.0, settings.seed)
    trained = train(problem, settings, watch=Watch(checkpoint_dir=tmp_path / "checkpoints"))
    arguments = {"leadline": "arguments", "omega": 2.0, "identity": settings.identity(problem)[:16]}
    said = settings.in_words()
    said["restarts"], said["learning-rate"], said["batch-size"] = (
        said.pop(name) for name in ("n_restarts", "learning_rate", "batch_size")
    )
    (tmp_path / "checkpoints" / "arguments.json").write_text(json.dumps(arguments | said))
    (tmp_path / "metrics.jsonl").write_text(text(line(1)))
    watcher = Watcher(tmp_path)
    watcher.look(closely=True)
    drawn = Regions(watcher.place).of(watcher.runs[""])
    assert drawn is not None
    assert drawn["epoch"] == 150
    grid, _ = decision_grid(problem.train[0], N)
    expected = Restarts(trained.model, settings.seed, 64).moments(grid)
    sure = np.abs(expected[:, 1] - 0.5) > 0.2
    assert sure.mean() > 0.5
    np.testing.assert_array_equal(np.array(drawn["class"])[sure], expected.argmax(axis=1)[sure])
    assert len(list((tmp_path / "checkpoints").glob("*.checkpoint"))) <= 2


def test_a_directory_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"^`dir` must be a directory, got .*no\.$"):
        watch(tmp_path / "no")


@pytest.mark.skipif(not hasattr(os, "getpriority"), reason="this system knows no niceness")
def test_the_command_gives_way_to_trainings(tmp_path):
    command = [sys.executable, "-m", "leadline", "watch", str(tmp_path), "--no-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith(f"watching {tmp_path} at http://127.0.0.1:")
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == min(os.getpriority(os.PRIO_PROCESS, 0) + LESS_URGENT, 19)
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0
    process.stdout.close()
