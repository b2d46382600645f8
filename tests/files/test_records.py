"""What is on disk is read with care: tables, locks, leftovers."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from leadline import InvalidArgumentError
from leadline.files import whole as _files
from leadline.files.checkpoints import ARGUMENTS, epochs_done
from leadline.files.directories import RECORD, output, replace_record, write_whole
from leadline.files.records import read_record, read_rows, write_rows
from leadline.studies.reproduce import COLUMNS
from leadline.training.interruption import Interruption


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


def test_a_forced_run_leaves_the_record_until_there_is_another(tmp_path):
    (tmp_path / RECORD).write_text('{"accuracy": 99}')
    with pytest.raises(InvalidArgumentError, match="holds a finished record already; choose another or use --force"):
        output(tmp_path, False).__enter__()
    with pytest.raises(KeyboardInterrupt), output(tmp_path, True):
        raise KeyboardInterrupt
    assert (tmp_path / RECORD).exists()
    with output(tmp_path, True):
        replace_record(tmp_path)
        assert not (tmp_path / RECORD).exists()


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
    assert not out.exists()


def test_arguments_that_cannot_be_read_are_no_reason_to_stop(tmp_path):
    """The checkpoints themselves know what they are of."""
    for i, content in enumerate(("", "[1]", '{"seed": 3')):
        checkpoints = tmp_path / str(i) / "checkpoints"
        checkpoints.mkdir(parents=True)
        (checkpoints / ARGUMENTS).write_text(content)
        (checkpoints / "0123456789abcdef-0000-000000007-000000.checkpoint").touch()
        with output(checkpoints.parent, False, {"seed": 4}):
            assert epochs_done(checkpoints) == 7


def test_half_a_record_is_one_sentence_in_words(tmp_path):
    (tmp_path / RECORD).write_text('{"accuracy": 99')
    with pytest.raises(
        InvalidArgumentError, match=r"record\.json cannot be read: Expecting ',' delimiter: line 1 .*\)\.$"
    ):
        read_record(tmp_path)


def test_a_full_disk_asks_for_room(tmp_path):
    (tmp_path / "file").symlink_to("/dev/full")
    with pytest.raises(InvalidArgumentError, match=r"cannot write .*file: No space left on device; make room\."):
        write_whole(tmp_path / "file", "something")


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path):
    (tmp_path / "far").mkdir()
    link, pipe = tmp_path / "link.csv", tmp_path / "pipe"
    link.symlink_to(tmp_path / "far" / "file.csv")
    for text in ("new", "newer"):
        write_whole(link, text)
        assert link.is_symlink()
        assert (tmp_path / "far" / "file.csv").read_text() == text
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        heard = pool.submit(pipe.read_text)
        write_whole(pipe, "water")
        assert heard.result(timeout=10) == "water"
    assert pipe.is_fifo()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["far", "file.csv", "link.csv", "pipe"]


def test_half_a_file_of_a_killed_process_goes_when_the_directory_is_used_again(tmp_path):
    (tmp_path / ".record.json.4711.part").touch()
    with output(tmp_path, None):
        assert not (tmp_path / ".record.json.4711.part").exists()


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path):
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / _files.LOCK).symlink_to(precious)
    with pytest.raises(InvalidArgumentError, match=r"`out`: cannot write .*; choose another place\."):
        output(tmp_path / "out", None).__enter__()
    assert precious.read_text() == "mine"


def test_a_lock_that_cannot_be_opened_is_one_sentence(tmp_path):
    (tmp_path / _files.LOCK).mkdir()
    with pytest.raises(InvalidArgumentError, match=r"`out`: cannot write .*: Is a directory; choose another place\."):
        output(tmp_path, None).__enter__()


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
