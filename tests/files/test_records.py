"""What is on disk is read with care: tables, locks, leftovers."""

import errno
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from leadline import DepthRegressor, InvalidArgumentError
from leadline.cli.streams import _Forgiving
from leadline.files import models as modelfile
from leadline.files import whole as _files
from leadline.files.checkpoints import ARGUMENTS, clear, epochs_done
from leadline.files.directories import RECORD, output, put_results, write_named, write_whole
from leadline.files.ours import is_ours
from leadline.files.records import Record, read_record, read_rows, record_file, write_rows
from leadline.report.page import write_page
from leadline.studies.reproduce import COLUMNS
from leadline.training.interruption import Interruption, ending_like_ctrl_c
from tests.report.test_page import spiral


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe\x00", b"a,b\n1\n", b"a,b\n1,2,3\n", b'a,b\n"' + b"x" * 200_000 + b'",1\n'],
    ids=["no text", "a short row", "a long row", "a cell without end"],
)
def test_a_table_that_is_none_is_one_sentence(tmp_path, content):
    path = tmp_path / "normal.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidArgumentError, match=r"`out`: .*normal\.csv is not a table of Leadline's, or is damaged"):
        read_rows(path)


def test_a_table_of_another_version_is_refused_before_anything_is_trained(tmp_path):
    path = tmp_path / "normal.csv"
    write_rows(path, [dict.fromkeys(COLUMNS[:-1], "1")])
    assert len(read_rows(path)) == 1
    with pytest.raises(InvalidArgumentError, match="has other columns than this version writes; choose another"):
        read_rows(path, COLUMNS)


def test_a_directory_is_one_process_s_and_free_again(tmp_path):
    another = pytest.raises(InvalidArgumentError, match=r"another process \(process \d+\) is writing into")
    with output(tmp_path, None), another:
        output(tmp_path, None).__enter__()
    with output(tmp_path, None):
        pass
    assert not (tmp_path / _files.LOCK).exists()


OURS = '{"depth_pmf": [1.0], "version": "0.1", "accuracy": 99}'


def test_a_forced_run_leaves_the_record_until_there_is_another(tmp_path):
    (tmp_path / RECORD).write_text(OURS)
    with pytest.raises(InvalidArgumentError, match="holds a finished record already; choose another or use --force"):
        output(tmp_path, False).__enter__()
    with pytest.raises(KeyboardInterrupt), output(tmp_path, True):
        raise KeyboardInterrupt
    assert (tmp_path / RECORD).read_text() == OURS
    with output(tmp_path, True) as checkpoints:
        put_results(tmp_path, {RECORD: b"new"}, checkpoints)
        assert (tmp_path / RECORD).read_bytes() == b"new"


def test_an_unfinished_training_is_given_up_only_by_force(tmp_path):
    out = tmp_path / "run"
    first, second = {"seed": 3, "epochs": 1500, "temperature": None}, {"seed": 4, "epochs": 20, "temperature": None}

    def name_of(epoch):
        return f"0123456789abcdef-0000-{epoch:09d}-000000.checkpoint"

    with output(out, False, first):
        pass
    assert not out.exists()  # nothing came of it
    with output(out, False, first) as checkpoints:
        (checkpoints / name_of(998)).touch()
        (checkpoints / name_of(1002)).touch()
    assert epochs_done(checkpoints) == 1002
    with pytest.raises(InvalidArgumentError) as error:
        output(out, False, second).__enter__()
    assert str(error.value) == (
        f"`out` {out} holds an unfinished training with seed 3, epochs 1500; give it the same, choose another "
        "directory or use --force."
    )
    for force in (False, True):
        with output(out, force, first):
            assert epochs_done(checkpoints) == 1002
    with output(out, True, second):
        assert epochs_done(checkpoints) is None
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("content", ["[1]", '{"seed": 3', '{"lr": 0.1}'])
def test_arguments_that_are_not_ours_are_refused_and_left_alone(tmp_path, content):
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir(parents=True)
    (checkpoints / ARGUMENTS).write_text(content)
    with pytest.raises(
        InvalidArgumentError, match=r"arguments\.json: what is there is not Leadline's, or is damaged; mov"
    ):
        output(tmp_path, False, {"seed": 4}).__enter__()
    assert (checkpoints / ARGUMENTS).read_text() == content


def test_empty_arguments_are_no_reason_to_stop(tmp_path):
    """Of a full disk: the checkpoints themselves know what they are of."""
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir(parents=True)
    (checkpoints / ARGUMENTS).touch()
    (checkpoints / "0123456789abcdef-0000-000000007-000000.checkpoint").touch()
    with output(checkpoints.parent, False, {"seed": 4}):
        assert epochs_done(checkpoints) == 7


def test_half_a_record_is_one_sentence_in_words(tmp_path):
    (tmp_path / RECORD).write_text('{"accuracy": 99')
    with pytest.raises(
        InvalidArgumentError, match=r"record\.json cannot be read: Expecting ',' delimiter: line 1 .*\)\.$"
    ):
        read_record(tmp_path)


@pytest.mark.parametrize("name", [RECORD, "chunks.csv"])
@pytest.mark.parametrize("kind", ["a pipe", "a device", "too large"])
def test_a_file_without_end_is_not_waited_for(tmp_path, kind, name):
    path = tmp_path / name
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(_files.MOST_BYTES + 1)
    why = "it has more than 64 MB" if kind == "too large" else "it is no regular file"
    with pytest.raises(InvalidArgumentError, match=rf"{name} (cannot be read|is not a table of .*): {why}\.$"):
        read_record(tmp_path) if name == RECORD else read_rows(path)


def test_a_record_of_more_restarts_and_depths_than_there_are_is_refused(tmp_path):
    """To draw them would take hours."""
    (tmp_path / RECORD).write_text(json.dumps({**json.loads(OURS), "depth_pmf": [1e-5] * 100_000}))
    with pytest.raises(InvalidArgumentError, match="its depth_pmf has more than 4096 entries"):
        read_record(tmp_path)


def test_a_full_disk_asks_for_room(tmp_path):
    (tmp_path / "file").symlink_to("/dev/full")
    with pytest.raises(InvalidArgumentError, match=r"cannot write .*file: No space left on device; make room\."):
        write_named(tmp_path / "file", "something")


def test_a_link_that_was_named_stays_a_link_and_a_pipe_a_pipe(tmp_path):
    (tmp_path / "far").mkdir()
    link, pipe = tmp_path / "link.csv", tmp_path / "pipe"
    link.symlink_to(tmp_path / "far" / "file.csv")
    with pytest.raises(InvalidArgumentError, match="it is a link to nothing"):
        write_named(link, "new")
    (tmp_path / "far" / "file.csv").touch()
    for text in ("new", "newer"):
        write_named(link, text)
        assert link.is_symlink()
        assert (tmp_path / "far" / "file.csv").read_text() == text
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        heard = pool.submit(pipe.read_text)
        write_named(pipe, "water")
        assert heard.result(timeout=10) == "water"
    assert pipe.is_fifo()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["far", "file.csv", "link.csv", "pipe"]


def test_a_pipe_that_nobody_reads_is_not_waited_for_for_long(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "PATIENCE", 0.1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidArgumentError, match="nobody reads this pipe"):
        write_named(tmp_path / "pipe", "water")


def test_half_a_letter_stands_there_as_its_number(tmp_path):
    """As in the name of a table that is no UTF-8."""
    assert write_named(tmp_path / "page", "bad\udcff.csv").read_text() == "bad\\udcff.csv"


def test_no_link_in_a_directory_of_ours_is_followed(tmp_path):
    precious, out = tmp_path / "precious.txt", tmp_path / "out"
    precious.write_text("mine")
    out.mkdir()
    for name in (RECORD, "normal.csv"):
        (out / name).symlink_to(precious)
        with pytest.raises(InvalidArgumentError, match="it is a link, which is not followed; choose another place"):
            write_whole(out / name, "new")
    assert precious.read_text() == "mine"


def test_half_a_file_of_a_killed_process_goes_when_the_directory_is_used_again(tmp_path):
    code = "import os, sys; from pathlib import Path; from leadline.files import whole\n"
    code += "os.fsync = lambda _: os.kill(os.getpid(), 9)\nwhole.put_whole(Path(sys.argv[1]), b'half')"
    subprocess.run([sys.executable, "-c", code, tmp_path / "report.html"], check=False, timeout=60)
    [half] = tmp_path.iterdir()
    assert half.name.endswith(_files.PART)
    _files.put_whole(tmp_path / "other.csv", b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["other.csv"]


def test_half_a_file_that_is_being_written_stays(tmp_path):
    with _files._written(tmp_path / "a", b"new") as part:
        _files.put_whole(tmp_path / "b", b"other")
        assert part.exists()


def test_files_of_the_user_that_look_like_ours_stay(tmp_path):
    """All of these were deleted once."""
    names = [".lock", ".write-test", ".download.iso.part", "checkpoints/bert.checkpoint", "checkpoints/movie.part"]
    names += [".leadline-0123456789abcdef0123456789abcdef.part", ".record.json.4711.part"]
    names += ["checkpoints/my-best-run-v2.checkpoint", "checkpoints/0123456789abcdef-0000-000000007-000000.checkpoint"]
    (tmp_path / "checkpoints" / "old.checkpoint").mkdir(parents=True)
    for name in names:
        (tmp_path / name).write_text("mine")
    with output(tmp_path, False, {"seed": 4}, [RECORD]) as checkpoints:
        put_results(tmp_path, {RECORD: OURS.encode()}, checkpoints)
        clear(checkpoints)
    assert all((tmp_path / name).read_text() == "mine" for name in names)
    assert {path.name for path in tmp_path.iterdir()} == {*(name.split("/")[0] for name in names), RECORD}


@pytest.mark.parametrize("kind", ["file", "link", "directory", "pipe"])
@pytest.mark.parametrize(
    "name", [RECORD, "model.safetensors", "spiral.png", "comparison.md", "chunks.csv", _files.LOCK]
)
def test_what_is_not_ours_is_refused_before_anything_is_trained(tmp_path, name, kind):
    path, precious = tmp_path / "out" / name, tmp_path / "precious"
    path.parent.mkdir()
    precious.write_text("mine")
    make = {"link": lambda: path.symlink_to(precious), "directory": path.mkdir, "pipe": lambda: os.mkfifo(path)}
    make.get(kind, lambda: path.write_text("mine"))()
    with pytest.raises(InvalidArgumentError, match=r"^`out`: cannot write [^\n]*\.$"):
        output(path.parent, True, {"seed": 4}, [name]).__enter__()
    assert precious.read_text() == "mine"
    assert kind != "file" or path.read_text() == "mine"
    assert [one.name for one in path.parent.iterdir()] == [name]


def test_checkpoints_behind_a_link_are_not_ours(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "checkpoints").symlink_to(tmp_path / "far")
    with pytest.raises(InvalidArgumentError, match="checkpoints must be a directory; move what is there away"):
        output(tmp_path / "out", True, {"seed": 4}).__enter__()


def test_an_empty_directory_of_the_users_stays(tmp_path):
    (tmp_path / "record.json").mkdir()
    for out in (tmp_path / "mine", tmp_path / "new"):
        if out.name == "mine":
            out.mkdir()
        with output(out, None):
            pass
    assert (tmp_path / "mine").exists()
    assert not (tmp_path / "new").exists()


def test_results_are_all_there_or_none(tmp_path, monkeypatch):
    old = {"model.safetensors": b'x "leadline": old', RECORD: OURS.encode()}
    put_results(tmp_path, old, None)
    replace, calls = Path.replace, []

    def failing(self, target):
        calls.append(target)
        if len(calls) == 2:
            raise OSError(5, "Input/output error")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(InvalidArgumentError, match="Input/output error"):
        put_results(tmp_path, dict.fromkeys(old, b'y "leadline": new'), None)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == old


def test_a_file_keeps_its_permissions(tmp_path):
    (tmp_path / "secret").touch(mode=0o600)
    _files.put_whole(tmp_path / "secret", b"new")
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


def test_what_only_its_owner_may_read_stays_so(tmp_path, monkeypatch):
    """Record, model and page; and the part of one, before its permissions are set."""
    names = [RECORD, "model.safetensors", "report.html"]
    model = DepthRegressor(width=2, n_restarts=1, max_iter=1).fit(np.arange(10.0)[:, None], np.arange(10.0))
    for name in names:
        (tmp_path / name).touch(mode=0o600)
    put_results(tmp_path, {RECORD: OURS.encode()}, None)
    model.save(tmp_path / "model.safetensors")
    write_page(Record.from_json(spiral()), tmp_path / "report.html")
    assert all((tmp_path / name).stat().st_size > 0 for name in names)
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in names} == {0o600}
    monkeypatch.setattr(os, "chmod", lambda *_: None)
    with _files._written(tmp_path / RECORD, b"secret") as part:
        assert part.stat().st_mode & 0o777 == 0o600


def test_threads_and_processes_that_write_one_file_do_not_disturb_each_other(tmp_path):
    """Also where their numbers are equal, as in containers."""
    code = "import os, sys; from pathlib import Path; from leadline.files import whole\nos.getpid = lambda: 7\n"
    code += "for i in range(100): whole.put_whole(Path(sys.argv[1]), bytes([65 + i % 26]) * 50_000)"
    writers = [subprocess.Popen([sys.executable, "-c", code, tmp_path / "file"]) for _ in range(2)]
    seen = 0
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: _files.put_whole(tmp_path / "file", bytes([97 + i % 26]) * 50_000), range(200)))
        while any(writer.poll() is None for writer in writers):
            content = (tmp_path / "file").read_bytes()
            assert len(content) == 50_000
            assert len(set(content)) == 1
            seen += 1
    assert [writer.returncode for writer in writers] == [0, 0]
    assert seen > 0
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_measure_that_is_not_finite_is_null(tmp_path):
    about = {"depth_pmf": [1.0], "depth_mean": 0.0, "depth_std": 0.0, "depth_mode": 0, "depth_support": [0, 0]}
    about |= {"recipe": "table", "depth": "normal", "width": 4, "temperature": 1.0, "n_restarts": 1, "epochs": 3}
    about |= {"seed": 1, "seconds": 1.0, "device": "cpu", "version": "0.1", "target_std": float("inf")}
    record = Record(**about, measures={"rmse": float("inf"), "ll_mixture": 0.5})
    (tmp_path / RECORD).write_bytes(record_file(record))
    said = json.loads((tmp_path / RECORD).read_text())
    assert said["rmse"] is None
    assert read_record(tmp_path).measures == {"ll_mixture": 0.5}


def test_ctrl_c_inside_is_heard_outside():
    with Interruption() as outer:
        with Interruption() as inner:
            signal.raise_signal(signal.SIGINT)
        assert inner.asked
        assert outer.asked
    with Interruption() as outer, Interruption():
        pass
    assert not outer.asked


def test_ctrl_c_that_somebody_swallows_is_heard_later():
    with Interruption(at_once=True) as outer:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert outer.asked
        with Interruption() as inner:
            assert inner.asked


def test_a_file_system_with_other_troubles_is_one_that_knows_no_locks(tmp_path, monkeypatch):
    """Else each try would leave a part, and there would be no end of them."""

    def trouble(*_):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(_files.fcntl, "flock", trouble)
    _files.put_whole(tmp_path / "file", b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("name", ["report.html", "checkpoints/arguments.json"])
def test_what_an_older_version_made_is_ours(tmp_path, name):
    contents = {
        "report.html": "<!DOCTYPE html>\n<style>\n:root { color-scheme: light dark; --paper: #ffffff; --ink: #1b1f24;",
        "checkpoints/arguments.json": '{"omega": 10.0, "identity": "0123456789abcdef", "version": "0.1.0"}',
    }
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(contents[name])
    assert is_ours(path)


def test_a_model_of_many_words_is_ours(tmp_path):
    """The mark stands behind them."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(modelfile.file_of({"classes": [f"a class of a long name, the {i}th" for i in range(5_000)]}, {}))
    assert path.read_bytes().index(b'"leadline":') > 100_000
    assert is_ours(path)


def test_signals_that_come_together_are_one():
    """As some who end processes send SIGTERM and SIGHUP: a second Ctrl-C would end the training at once."""
    with ending_like_ctrl_c(), Interruption() as asked:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)
        assert asked.asked


def test_a_process_in_the_background_hears_sigterm():
    """There a shell has SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with ending_like_ctrl_c(), pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_pipe_that_does_not_block_loses_what_it_has_no_room_for():
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with os.fdopen(reading), _Forgiving(writing, "w") as stream:
        for _ in range(10):
            assert stream.write(b"x" * 50_000) > 0
        assert stream.lost.errno == errno.EAGAIN


def test_a_directory_is_free_again_whatever_goes_wrong_at_the_end(tmp_path, monkeypatch):
    """Even where the lock cannot be removed because memory is out."""

    def no_memory(_):
        raise MemoryError

    with pytest.raises(MemoryError) as error, monkeypatch.context() as now, _files.only_writer(tmp_path):
        now.setattr(Path, "unlink", no_memory)
    assert error.tb is not None  # and with it all that the lock is held by
    with _files.only_writer(tmp_path):
        pass


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (MemoryError(), "it is larger than the memory that is left"),
        (OSError(errno.EACCES, "Permission denied"), "Permission denied"),
        (ValueError("It is odd."), "It is odd"),
    ],
)
def test_no_reason_is_empty(error, why):
    assert _files.reason(error) == why
