"""What is on disk is read with care: tables, locks, leftovers."""

import errno
import signal

import pytest

from leadline import InvalidArgumentError, _files
from leadline.experiments.records import COLUMNS, Keep, output, read_rows, write_rows
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


@pytest.mark.parametrize(("number", "taken"), [(errno.EAGAIN, False), (errno.EACCES, False), (errno.ENOLCK, True)])
def test_a_file_system_without_locks_is_no_other_process(tmp_path, monkeypatch, number, taken):
    import fcntl

    def flock(*_):
        raise OSError(number, "no")

    monkeypatch.setattr(fcntl, "flock", flock)
    with (tmp_path / "file").open("a") as file:
        assert _files._lock(file.fileno()) is taken


def test_what_a_killed_process_left_goes_when_all_is_done(tmp_path):
    keep = Keep(tmp_path / "checkpoints", 60.0)
    for what in ("one", "other"):
        keep.place(what).mkdir(parents=True)
        (keep.place(what) / "a.checkpoint").touch()
        (keep.place(what) / ".b.checkpoint.part").touch()
    keep.no_more("one")
    assert keep.place("other").is_dir()
    keep.nothing_more()
    assert not keep.folder.exists()
    keep.nothing_more()  # and again


def test_ctrl_c_inside_is_heard_outside():
    with Interruption() as outer:
        with Interruption() as inner:
            signal.raise_signal(signal.SIGINT)
        assert inner.asked
        assert outer.asked
    with Interruption() as outer, Interruption():
        pass
    assert not outer.asked
