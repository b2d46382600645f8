"""The spiral against its definition, and files of tables and images against what was written."""

import gzip
import os
import warnings

import numpy as np
import pytest

from leadline import InvalidArgumentError
from leadline.datasets import load_cifar10, load_idx, load_images, load_uci, read_idx, spiral, spiral_parts, uci_splits

RNG = np.random.default_rng(0)


def test_points_lie_on_the_spiral_up_to_the_noise():
    """Unwind every point: away from the centre its distance from the spiral is the noise, sd 0.02 in each direction."""
    x, y = spiral(50_000, 3.0, np.random.default_rng(0))
    radius = np.hypot(*x.T)
    far = radius > 0.3
    angle = 3.0 * radius * np.pi / 2
    side = np.where(y == 1, 1, -1)
    direction = side[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    # Near the arm the offset across it is Gaussian with sd 0.02 times the factor of the moving angle.
    across = (x[:, 0] * -direction[:, 1] + x[:, 1] * direction[:, 0])[far]
    expected = 0.02 * np.sqrt(1 + (3.0 * np.pi / 2 * radius[far]) ** 2)
    assert np.std(across / expected) == pytest.approx(1, rel=0.02)
    assert np.mean(y) == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(50_000))


def test_radius_is_the_root_of_a_uniform():
    x, _ = spiral(50_000, 0.0, np.random.default_rng(0))
    square = x[:, 0] ** 2 + x[:, 1] ** 2
    assert np.mean(square) == pytest.approx(0.5 + 2 * 0.02**2, abs=4 * np.sqrt(1 / 12 / 50_000))


def test_parts_are_independent_and_depend_on_the_seed():
    one, again, other = spiral_parts(10, 1), spiral_parts(10, 1), spiral_parts(10, 2)
    assert list(one) == ["train", "validation", "test"]
    assert all(x.shape == (1024, 2) and y.shape == (1024,) for x, y in one.values())
    np.testing.assert_array_equal(one["test"][0], again["test"][0])
    assert not np.any(one["train"][0] == one["test"][0])
    assert not np.any(one["train"][0] == other["train"][0])


@pytest.mark.parametrize(
    ("n", "omega", "message"),
    [
        (10, -1.0, "`omega` must be at least 0, got -1.0."),
        (10, float("nan"), "`omega` must be finite, got nan."),
        (0, 1.0, "`n` must be a whole number of at least 1, got 0."),
    ],
)
def test_wrong_arguments_get_one_sentence(n, omega, message):
    with pytest.raises(InvalidArgumentError) as error:
        spiral(n, omega, np.random.default_rng(0))
    assert str(error.value) == message


def test_the_uci_sets_have_their_published_sizes_and_their_parts_are_all_of_the_rows(shared):
    sizes = {
        "bostonHousing": (506, 13),
        "concrete": (1030, 8),
        "naval-propulsion-plant": (11934, 16),
        "yacht": (308, 6),
    }
    for name, (n_rows, n_columns) in sizes.items():
        assert uci_splits(shared / "data" / "uci", name) == 20
        parts = load_uci(shared / "data" / "uci", name, split=19)
        assert parts["train"][0].shape[1] == parts["test"][0].shape[1] == n_columns
        assert len(parts["train"][1]) + len(parts["test"][1]) == n_rows
        assert len(parts["test"][1]) == pytest.approx(n_rows / 10, abs=1)


def test_a_split_is_the_rows_and_columns_that_the_files_name(tmp_path):
    folder = tmp_path / "toy"
    folder.mkdir()
    data = np.arange(12.0).reshape(4, 3)
    files = {"data": data, "index_features": [[2.0, 0.0]], "index_target": [1.0], "n_splits": [1.0]}
    files |= {"index_train_0": [3.0, 0.0, 1.0], "index_test_0": [2.0]}
    for name, numbers in files.items():
        np.savetxt(folder / f"{name}.txt", numbers)
    parts = load_uci(tmp_path, "toy", 0)
    np.testing.assert_array_equal(parts["train"][0], [[11, 9], [2, 0], [5, 3]])
    np.testing.assert_array_equal(parts["train"][1], [10, 1, 4])
    np.testing.assert_array_equal(parts["test"][1], [7])
    wrong = {
        ("index_test_0", "[9.0]"): "must hold whole numbers from 0 to 3, got 9",
        ("index_test_0", "[0.0]"): "split 0 in .* has rows in both of its parts",
        ("index_target", "[0.0, 1.0]"): "must name one column, got 2",
        ("data", "[[1.0, np.nan, 2.0]]"): "must hold numbers, all of them finite",
    }
    for name in ("index_features", "index_train_0", "data"):
        path = folder / f"{name}.txt"
        for kind, why in (("pipe", "it is no regular file"), ("device", "it is no r"), ("holes", "there are holes")):
            path.unlink()
            if kind == "pipe":
                os.mkfifo(path)
            elif kind == "device":
                path.symlink_to("/dev/zero")
            else:
                path.touch()
                os.truncate(path, 2**40)
            with pytest.raises(InvalidArgumentError, match=why if kind == "holes" or name != "data" else "with a data"):
                load_uci(tmp_path, "toy", 0)
        path.unlink()
        np.savetxt(path, files[name])
    for (name, numbers), message in wrong.items():
        np.savetxt(folder / f"{name}.txt", eval(numbers))
        with pytest.raises(InvalidArgumentError, match=message):
            load_uci(tmp_path, "toy", 0)
        np.savetxt(folder / f"{name}.txt", files[name])
    (folder / "data.txt").write_text("")
    with warnings.catch_warnings(action="error"), pytest.raises(InvalidArgumentError, match="must hold numbers"):
        load_uci(tmp_path, "toy", 0)
    (folder / "data.txt").write_text("1 2\nthree 4\n")
    with pytest.raises(InvalidArgumentError, match=r"data.txt cannot be read: .*three"):
        load_uci(tmp_path, "toy", 0)
    with pytest.raises(InvalidArgumentError, match=r"`name` must be one of toy with a data.txt, got 'boston'"):
        load_uci(tmp_path, "boston", 0)
    with pytest.raises(InvalidArgumentError, match="`split` must be at most 0, got 1"):
        load_uci(tmp_path, "toy", 1)


# Images


def idx(array):
    """The bytes of an IDX file."""
    kind = {"uint8": 0x08, "int8": 0x09, "int16": 0x0B, "int32": 0x0C, "float32": 0x0D, "float64": 0x0E}[
        array.dtype.name
    ]
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, kind, array.ndim]) + sizes + array.astype(array.dtype.newbyteorder(">")).tobytes()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "float32", "float64"])
def test_an_idx_file_is_what_was_written(dtype, tmp_path):
    array = (100 * RNG.normal(size=(3, 4, 5))).astype(dtype)
    for name, content in {"plain": idx(array), "packed.gz": gzip.compress(idx(array))}.items():
        (tmp_path / name).write_bytes(content)
        read = read_idx(tmp_path / name)
        assert read.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(read, array)


@pytest.fixture
def digits(tmp_path):
    """A set like MNIST, its test part compressed."""
    images, labels = RNG.integers(256, size=(5, 4, 3)).astype(np.uint8), np.arange(5, dtype=np.uint8)
    for called, rows, ending, pack in (("train", 5, "", bytes), ("t10k", 2, ".gz", gzip.compress)):
        (tmp_path / f"{called}-images-idx3-ubyte{ending}").write_bytes(pack(idx(images[:rows])))
        (tmp_path / f"{called}-labels-idx1-ubyte{ending}").write_bytes(pack(idx(labels[:rows])))
    return tmp_path, images, labels


def test_a_set_of_digits_is_its_four_files(digits):
    folder, images, labels = digits
    parts = load_idx(folder)
    for part, n in (("train", 5), ("test", 2)):
        np.testing.assert_array_equal(parts[part][0], images[:n, :, :, None])
        np.testing.assert_array_equal(parts[part][1], labels[:n])


IMAGE = idx(np.zeros((5, 4, 3), np.uint8))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it ends 4 bytes too early"),
        (b"\x89PNG", "it is no IDX file"),
        (IMAGE[:-1], "it ends 1 bytes too early"),
        (IMAGE + b"0", "it goes on after the 60 bytes that it says it holds"),
        (bytes([0, 0, 8, 3]) + b"\xff" * 12, r"it says that it holds \d+ bytes, more than 1073741824"),
        (bytes([0, 0, 8, 2]) + (2**15).to_bytes(4, "big") * 2, "it ends 1073741824 bytes too early"),
        (bytes([0, 0, 8, 0]), "it is no IDX file"),
        (gzip.compress(IMAGE)[:-9], "cannot be read"),
        (gzip.compress(IMAGE)[:12] + b"\xff" * 30, "cannot be read"),
        (gzip.compress(bytes(2**25)), "it is no IDX file"),
        (idx(np.zeros((5, 12), np.uint8)), r"must hold images of bytes \[rows, height, width\], got uint8 of shape"),
        (idx(np.zeros((5, 4, 3), np.float32)), "must hold images of bytes"),
        (idx(np.zeros((4, 4, 3), np.uint8)), "must hold a class for each of 4 images, got uint8 of shape"),
    ],
)
def test_a_damaged_idx_file_is_one_sentence(content, message, digits):
    folder, _, _ = digits
    (folder / "train-images-idx3-ubyte").write_bytes(content)
    with pytest.raises(InvalidArgumentError, match=rf"^`path`: .*{message}.*\.$"):
        load_idx(folder)


@pytest.mark.parametrize("kind", ["pipe", "device", "holes", "nothing"])
def test_what_is_no_file_of_images_is_not_waited_for(kind, digits):
    folder, _, _ = digits
    path = folder / "train-labels-idx1-ubyte"
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "holes":
        path.touch()
        os.truncate(path, 2**40)
    with pytest.raises(InvalidArgumentError, match=r"train-labels-idx1-ubyte (cannot be read|\(or )"):
        load_idx(folder)


def test_cifar_is_six_batches(tmp_path):
    """Of each image its class, then the red, the green and the blue of its places, row by row."""
    images = RNG.integers(256, size=(12, 32, 32, 3)).astype(np.uint8)
    labels = (np.arange(12) % 10).astype(np.uint8)
    rows = np.concatenate([labels[:, None], images.transpose(0, 3, 1, 2).reshape(12, -1)], axis=1)
    folder = tmp_path / "cifar10" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for i in range(5):
        (folder / f"data_batch_{i + 1}.bin").write_bytes(rows[2 * i : 2 * i + 2].tobytes())
    (folder / "test_batch.bin.gz").write_bytes(gzip.compress(rows[10:].tobytes()))
    parts = load_images(tmp_path, "cifar10")
    for part, some in (("train", slice(10)), ("test", slice(10, None))):
        np.testing.assert_array_equal(parts[part][0], images[some])
        np.testing.assert_array_equal(parts[part][1], labels[some])
    wrong = rows[:2].copy()
    wrong[1, 0] = 10
    for content, message in (
        (rows[:2].tobytes()[:-1], "6145 bytes are no whole number of images with a class, of 3073"),
        (b"", "0 bytes are no whole number of images"),
        (wrong.tobytes(), "it has the class 10, and there are those from 0 to 9"),
    ):
        (folder / "data_batch_3.bin").write_bytes(content)
        with pytest.raises(InvalidArgumentError, match=rf"data_batch_3.bin cannot be read: {message}"):
            load_cifar10(folder)
    (folder / "data_batch_3.bin").unlink()
    with pytest.raises(InvalidArgumentError, match=r"^`path` must be a directory with the file data_batch_3.bin \(or"):
        load_cifar10(folder)
    with pytest.raises(InvalidArgumentError, match="`name` must be one of mnist, fashion-mnist, cifar10, got 'svhn'"):
        load_images(tmp_path, "svhn")
