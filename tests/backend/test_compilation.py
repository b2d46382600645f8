"""Compiled programs: kept on disk for the next process, and forgotten before they are too many for this one."""

import os
import subprocess
import sys
import zlib
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from leadline.backend import compilation
from leadline.backend.compilation import ProgramsNotKeptWarning, make_room

# 0.1 s of compilation, and whether it was spent
COMPILE = """if True:
    import jax
    from leadline import train
    import jax.numpy as jnp
    hits = []
    jax.monitoring.register_event_listener(lambda event, **_: hits.append(event))
    def slow(x):
        for i in range(200):
            x = jnp.sort(x) @ x + i
        return x
    jax.jit(slow)(jnp.ones((3, 3)))
    print(jax.config.jax_compilation_cache_dir, "/jax/compilation_cache/cache_hits" in hits)
"""


def run(**environment):
    """Where programs are kept, and whether one was found there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    command = [sys.executable, "-c", COMPILE]
    done = subprocess.run(command, env={**kept, **environment}, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    folder, hit = done.stdout.split()
    return folder, hit == "True"


@pytest.mark.skipif(sys.platform != "linux", reason="where the cache lies is the system's business")
def test_the_next_process_reads_what_this_one_compiled(tmp_path):
    """Though a process was killed while it wrote a program there."""
    folder = str(tmp_path / "leadline" / "programs")
    os.makedirs(folder)
    Path(folder, "jit_half-0123-cache").write_bytes(b"half")
    assert run(XDG_CACHE_HOME=str(tmp_path)) == (folder, False)
    assert any("jit_slow" in name for name in os.listdir(folder))
    assert run(XDG_CACHE_HOME=str(tmp_path)) == (folder, True)


def test_a_program_that_is_cut_short_is_compiled_again_and_kept(tmp_path):
    folder = Path(run(XDG_CACHE_HOME=str(tmp_path))[0])
    program = next(folder.glob("jit_slow*-cache"))
    program.write_bytes(program.read_bytes()[:1000])
    assert run(XDG_CACHE_HOME=str(tmp_path)) == (str(folder), False)
    assert run(XDG_CACHE_HOME=str(tmp_path)) == (str(folder), True)


def test_only_programs_that_are_whole_stay(tmp_path):
    """What was seen to be whole is not looked at again, unless it is written again."""
    whole = zlib.compress(bytes(range(256)) * 100)
    harmed = {"whole": whole, "short": whole[:-1], "empty": b"", "flipped": whole[:99] + b"?" + whole[100:]}
    compilation._tidy(tmp_path)
    for name, content in {**harmed, "other": b"\x28\xb5\x2f\xfd"}.items():
        (tmp_path / f"{name}-cache").write_bytes(content)
        (tmp_path / f"{name}-atime").touch()
    (tmp_path / "killed-cache").write_bytes(whole)
    compilation._tidy(tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*-cache")) == ["other-cache", "whole-cache"]


def test_programs_are_the_user_s_alone(tmp_path):
    """Made so, and where an older version let others read, made so again."""
    folder = tmp_path / "leadline" / "programs"
    assert run(XDG_CACHE_HOME=str(tmp_path))[0] == str(folder)
    for one in (folder, folder.parent):
        assert one.stat().st_mode & 0o777 == 0o700
        one.chmod(0o755)
    assert run(XDG_CACHE_HOME=str(tmp_path)) == (str(folder), True)
    assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("harm", ["anyone's", "the group's", "anyone's above", "another's"])
def test_programs_that_others_could_have_written_are_not_run(tmp_path, monkeypatch, harm):
    monkeypatch.setattr(compilation, "_user_cache", lambda: tmp_path)
    folder = compilation._own_folder()
    assert folder == tmp_path / "leadline" / "programs"
    if harm == "another's":
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        os.chown(folder, 65534, 65534)
    else:
        (folder.parent if "above" in harm else folder).chmod(0o775 if "group" in harm else 0o777)
    why = "/programs is another user's; name a directory" if harm == "another's" else "others can write into"
    with pytest.warns(ProgramsNotKeptWarning, match=f"compiled programs are not kept, since .*{why}"):
        assert compilation._own_folder() is None


def test_the_command_line_says_so_in_a_note(tmp_path):
    (tmp_path / "leadline").mkdir()
    (tmp_path / "leadline").chmod(0o777)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    command = [sys.executable, "-c", "from leadline.cli import main; main()", "report", str(tmp_path)]
    done = subprocess.run(command, env={**kept, "XDG_CACHE_HOME": str(tmp_path)}, capture_output=True, text=True)
    note, refused = done.stderr.splitlines()
    assert note == (
        f"leadline: note: compiled programs are not kept, since others can write into {tmp_path / 'leadline'}; remove "
        "it, and it is made anew."
    )
    assert refused.startswith("leadline: `run` must be a directory")


def test_jax_s_own_settings_come_first(tmp_path):
    own, other = tmp_path / "own", tmp_path / "other"
    assert run(XDG_CACHE_HOME=str(own), JAX_COMPILATION_CACHE_DIR=str(other)) == (str(other), False)
    assert run(XDG_CACHE_HOME=str(own), JAX_ENABLE_COMPILATION_CACHE="0") == ("None", False)
    assert not own.exists()


def test_a_home_that_cannot_be_written_does_no_harm(tmp_path):
    (tmp_path / "file").write_text("")
    assert run(XDG_CACHE_HOME=str(tmp_path / "file")) == ("None", False)


def test_the_directory_is_locked_and_does_not_grow_for_ever(tmp_path):
    """JAX forgets the oldest program where the next would be too much: there is room for one and a half."""
    folder = Path(run(XDG_CACHE_HOME=str(tmp_path))[0])
    (folder / ".lockfile").unlink()
    old = next(folder.glob("jit_slow*-cache"))
    room = str(3 * old.stat().st_size // 2)
    old.rename(folder / "jit_older-0123-cache")
    next(folder.glob("jit_slow*-atime")).rename(folder / "jit_older-0123-atime")
    assert run(XDG_CACHE_HOME=str(tmp_path), JAX_COMPILATION_CACHE_MAX_SIZE=room) == (str(folder), False)
    assert [path.name.split("-")[0] for path in folder.glob("*-cache")] == ["jit_slow"]
    assert (folder / ".lockfile").exists()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux counts them")
def test_programs_are_forgotten_before_they_are_too_many():
    def mappings():
        return len(Path("/proc/self/maps").read_text().splitlines())

    traced = []

    @jax.jit
    def program(x):
        traced.append(x.shape)
        return jnp.cumsum(jnp.sin(x))

    program(jnp.ones(5))
    make_room(most_mappings=10**9)
    program(jnp.ones(5))
    assert len(traced) == 1
    before = mappings()
    make_room(most_mappings=2 * before)
    program(jnp.ones(5))
    assert len(traced) == 1
    make_room(most_mappings=before // 2)
    assert mappings() < before
    program(jnp.ones(5))
    assert len(traced) == 2


def test_a_cache_that_is_no_whole_path_is_passed_over(tmp_path, monkeypatch):
    """As its standard says: programs would lie wherever somebody trains."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert compilation._user_cache() == (tmp_path / ".cache" if sys.platform == "linux" else compilation._user_cache())
