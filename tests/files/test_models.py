"""Model files: what goes in comes out to the bit, what is damaged is refused in one sentence, and nothing is lost."""

import contextlib
import dataclasses
import json
import os
import pickle
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file

import leadline
from leadline import (
    RECIPES,
    CategoricalDepth,
    CategoricalLikelihood,
    DepthClassifier,
    FixedDepth,
    InvalidArgumentError,
    NormalDepth,
    PoissonDepth,
    TableEncoder,
)
from leadline.files import models as modelfile
from leadline.training.drawing import _init_models_quickly as init_models
from tests.depth.test_conformance import GeometricDepth
from tests.estimators.test_estimators import LINE, SETTINGS, SINE, TRAIN, Y, brief, regressor
from tests.estimators.test_estimators import X as PLANE

SETTINGS = {**SETTINGS, "early_stopping": False, "max_iter": 3}
FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=["âge", "dose", "a.b"])
NAMES = np.where(FRAME["âge"] > 0.5, "high", np.where(FRAME["dose"] > 0, "low", "été"))


@pytest.fixture(scope="module")
def plain():
    """The default depth, whole numbers as labels."""
    return brief(max_iter=3, class_weight={0: 1.0, 1: np.float64(2.5)}).fit(PLANE[TRAIN], Y[TRAIN])


@pytest.fixture(scope="module")
def named():
    """Everything that is not a number or a short word."""
    est = DepthClassifier(
        **SETTINGS,
        recipe=dataclasses.replace(RECIPES["leadline"], name="mine", warm_up=0.8, initial_depth=(0.5, 1.1)),
        depth=(PoissonDepth(1.3), CategoricalDepth(4)),
        class_weight={"high": 2, "low": 1, "été": 0.7},
    )
    return est.fit(FRAME, NAMES)


@pytest.fixture(scope="module")
def numbers():
    return regressor().fit(LINE, SINE)


@pytest.fixture(scope="module")
def fixed(plain):
    """A fixed depth, a prior without scales of its own, and true or false as labels; the networks are not trained."""
    est = pickle.loads(pickle.dumps(plain)).set_params(depth=np.int64(2), recipe="written", temperature=np.float64(0.5))
    depth = (FixedDepth(2), FixedDepth(2))
    keys = jax.random.split(jax.random.key(0), 2)
    est.model_ = init_models(2, CategoricalLikelihood(2), depth=depth, recipe="written", width=8, key=keys)
    est.classes_ = np.array([False, True])
    return est


ROWS = {"plain": PLANE[:20], "named": FRAME[:20], "numbers": LINE[:20], "fixed": PLANE[:20]}
FAMILIES = {
    "plain": (NormalDepth, NormalDepth),
    "named": (PoissonDepth, CategoricalDepth),
    "numbers": (NormalDepth, NormalDepth),
    "fixed": (FixedDepth, FixedDepth),
}


@pytest.fixture
def saved(plain, tmp_path):
    path = tmp_path / "model.safetensors"
    plain.save(path)
    return path


def said_of(path, load=leadline.load):
    """The one sentence about a file that is refused."""
    with pytest.raises(InvalidArgumentError) as error:
        load(path)
    message = str(error.value)
    assert isinstance(error.value, ValueError)
    assert re.fullmatch(r"`path`: [^\n]*[^.\n]\.", message)
    assert str(path) in message
    return message


def assert_same(one, other):
    """Alike in type, and to the bit in value."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, np.ndarray):
        assert one.dtype.kind == other.dtype.kind or {one.dtype.kind, other.dtype.kind} == {"O", "U"}
        np.testing.assert_array_equal(one, other, strict=one.dtype.kind not in "OU")
    elif isinstance(one, eqx.Module):
        assert jax.tree.structure(one) == jax.tree.structure(other)
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_array_equal(a, b)
    elif isinstance(one, TableEncoder):
        assert_same(one.to_json(), other.to_json())
    elif isinstance(one, tuple):
        assert isinstance(other, tuple)
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    else:
        assert one == other


@pytest.mark.parametrize("name", ROWS)
def test_an_estimator_comes_back_to_the_bit(name, request, tmp_path):
    est = request.getfixturevalue(name)
    assert (type(est.model_.depth_prior), type(est.model_.depth_posterior)) == FAMILIES[name]
    est.save(str(tmp_path / "m"))
    back = leadline.load(tmp_path / "m")
    assert type(back) is type(est)
    assert_same(est.get_params(), back.get_params())
    learned = {key: value for key, value in vars(est).items() if key != "fit_seconds_"}  # the same model, the same file
    assert_same(learned, vars(back))  # all of it: the model, the history, the depth, the free energy, ...
    x = ROWS[name]
    if name == "numbers":
        assert_same(est.predict(x, return_std=True), back.predict(x, return_std=True))
        assert_same(est.predict_interval(x), back.predict_interval(x))
    else:
        assert_same(est.predict_proba(x), back.predict_proba(x))
        assert_same(est.predict(x), back.predict(x))
    assert_same(dataclasses.asdict(est.uncertainty(x)), dataclasses.asdict(back.uncertainty(x)))
    assert os.listdir(tmp_path) == ["m"]  # and nothing beside it
    back.save(tmp_path / "again")
    assert modelfile.read(tmp_path / "again")[0] == modelfile.read(tmp_path / "m")[0]


def test_what_is_no_number_is_left_out(plain, tmp_path):
    est = pickle.loads(pickle.dumps(plain)).set_params(callback=print, random_state=np.random.RandomState(3))
    est.save(tmp_path / "m")
    back = leadline.load(tmp_path / "m")
    assert (back.callback, back.random_state) == (None, None)
    np.testing.assert_array_equal(back.predict_proba(PLANE), plain.predict_proba(PLANE))


def test_every_byte_is_accounted_for(plain, saved):
    """Read by hand: eight bytes for the length of the header, JSON, and the numbers. There is no room for a pickle."""
    raw = saved.read_bytes()
    (n_header,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + n_header])
    metadata = header.pop("__metadata__")
    assert set(metadata) == {"leadline", "format", "config", "checksum"}
    assert (metadata["leadline"], metadata["format"]) == (leadline.__version__, "3")
    assert json.loads(metadata["config"])["estimator"] == "DepthClassifier"
    types, end = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8"}, 0
    tensors = {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        start, stop = entry["data_offsets"]
        assert start == end
        end = stop
        data = raw[8 + n_header + start : 8 + n_header + stop]
        tensors[name] = np.frombuffer(data, types[entry["dtype"]]).reshape(entry["shape"])
    assert 8 + n_header + end == len(raw)
    np.testing.assert_array_equal(tensors["depth_pmf_"], plain.depth_pmf_)
    np.testing.assert_array_equal(tensors["history.free_energy"], plain.history_["free_energy"])
    np.testing.assert_array_equal(
        tensors["model.network.first.layer.weight_mean"], plain.model_.network.first.layer.weight_mean
    )


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_pickle_is_refused_and_not_run(plain, tmp_path):
    (tmp_path / "bomb").write_bytes(pickle.dumps(Bomb(str(tmp_path / "crater"))))
    assert "is no model file, or is damaged" in said_of(tmp_path / "bomb")
    (tmp_path / "fit").write_bytes(pickle.dumps(plain))
    assert "is no model file, or is damaged" in said_of(tmp_path / "fit")
    assert not (tmp_path / "crater").exists()


def test_nothing_is_unpickled_while_a_file_is_loaded(saved):
    """Python reports every class that a pickle asks for to its audit hooks; the last line shows that it would."""
    code = """if True:
        import pickle, sys
        import leadline
        asked = []
        sys.addaudithook(lambda event, arguments: asked.append(arguments) if event == "pickle.find_class" else None)
        leadline.load(sys.argv[1])
        print(len(asked))
        pickle.loads(pickle.dumps(sys.getsizeof))
        print(len(asked))
    """
    done = subprocess.run([sys.executable, "-c", code, saved], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "1"]


# Damage


def header_length(raw):
    return 8 + struct.unpack("<Q", raw[:8])[0]


@pytest.mark.parametrize("kept", [0, 1, 7, 8, 9, 500, "header - 1", "header", "header + 1", "half", "all - 1"])
def test_a_truncated_file_is_refused(saved, kept):
    raw = saved.read_bytes()
    places = {"header": header_length(raw), "half": len(raw) // 2, "all": len(raw)}
    word, _, rest = str(kept).partition(" ")
    size = places[word] + int(rest.replace(" ", "") or 0) if word in places else int(kept)
    saved.write_bytes(raw[:size])
    assert "is no model file, or is damaged" in said_of(saved)


def test_a_file_that_is_too_long_is_refused(saved):
    saved.write_bytes(saved.read_bytes() + b"\0")
    assert "is no model file, or is damaged" in said_of(saved)


def flipped(raw, place, bit=0):
    return raw[:place] + bytes([raw[place] ^ 1 << bit]) + raw[place + 1 :]


def test_a_flipped_bit_among_the_numbers_is_seen(saved):
    raw = saved.read_bytes()
    start = header_length(raw)
    for place in [start, len(raw) - 1, *range(start + 100, len(raw), 997)]:
        saved.write_bytes(flipped(raw, place, place % 8))
        assert said_of(saved).endswith("is damaged: its contents do not match its checksum.")


def unguarded(raw):
    """The places of the version and of the format in the header."""
    spans = [re.search(rf'"{name}":"([^"]*)"'.encode(), raw).span(1) for name in ("leadline", "format")]
    return [place for span in spans for place in range(*span)]


def test_a_flipped_bit_in_the_header_is_seen(saved):
    raw = saved.read_bytes()
    for place in sorted({*range(8), *range(8, header_length(raw), 23)} - {*unguarded(raw)}):
        saved.write_bytes(flipped(raw, place))
        message = said_of(saved, modelfile.read)
        assert "damaged" in message or "not one of Leadline's" in message


def test_a_flipped_bit_in_the_version_or_the_format_is_seen(saved):
    raw = saved.read_bytes()
    for place in unguarded(raw):
        saved.write_bytes(flipped(raw, place))
        said_of(saved, modelfile.read)


def test_a_file_of_another_kind_is_refused(saved, tmp_path):
    (tmp_path / "text").write_text("depth,accuracy\n3,97.5\n" * 50)
    assert "is no model file, or is damaged" in said_of(tmp_path / "text")
    save_file({"a": np.ones(3)}, tmp_path / "bare")
    save_file({"a": np.ones(3)}, tmp_path / "torch", metadata={"format": "pt"})
    for name in ("bare", "torch"):
        assert said_of(tmp_path / name).endswith("is a safetensors file, but not one of Leadline's.")
    assert said_of(tmp_path / "nowhere") == f"`path`: there is no model file {tmp_path / 'nowhere'}."
    (tmp_path / "folder").mkdir()
    inside = tmp_path / "folder" / "model.safetensors"
    assert said_of(tmp_path / "folder") == f"`path`: there is no model file {inside}."
    leadline.load(saved)  # while the right one is read, by its directory too
    leadline.load(tmp_path)


@pytest.mark.parametrize("unit", ["datetime64[D]", "timedelta64[s]"])
def test_classes_that_json_does_not_know_are_refused_when_they_are_saved(tmp_path, unit):
    model = brief(max_iter=1).fit(PLANE[TRAIN], (Y[TRAIN] == 1).astype(int).astype(unit))
    with pytest.raises(
        leadline.InvalidArgumentError, match=r"^`y` has classes of the type .*; fit with text for them\.$"
    ):
        model.save(tmp_path / "model")
    assert not any(tmp_path.iterdir())


TYPES = {"F8_E4M3": 1, "F8_E5M2": 1, "BF16": 2, "F16": 2, "I16": 2, "U8": 1, "BOOL": 1}
"""Some that safetensors has and a network of ours never, by their bytes."""


@pytest.mark.parametrize("kind", TYPES)
def test_numbers_of_another_type_are_refused(saved, kind):
    """In the place of one tensor, with as many bytes."""
    raw = saved.read_bytes()
    header, start = json.loads(raw[8 : header_length(raw)]), header_length(raw)
    one = header["model.network.first.layer.weight_mean"]
    one["dtype"], one["shape"] = kind, [one["data_offsets"][1] - one["data_offsets"][0]]
    one["shape"][0] //= TYPES[kind]
    text = json.dumps(header).encode()
    saved.write_bytes(len(text).to_bytes(8, "little") + text + raw[start:])
    message = said_of(saved)
    if kind in ("F8_E4M3", "F8_E5M2", "BF16"):
        assert message.endswith(f"is no model file, or is damaged: it has numbers of the type {kind}.")


@pytest.mark.parametrize("kind", [np.float16, np.int64, np.uint8, np.complex64, bool])
def test_weights_of_another_type_are_refused_though_the_checksum_is_right(saved, kind):
    config, tensors = modelfile.read(saved)
    name = "model.network.first.layer.weight_mean"
    modelfile.write(saved, modelfile.file_of(config, tensors | {name: tensors[name].astype(kind)}))
    said_of(saved)


def test_a_pipe_a_device_and_a_file_without_end_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        assert said_of(tmp_path / name).endswith("cannot be read: it is no regular file.")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2**39, limits[1]))
    try:
        assert said_of(tmp_path / "sparse").endswith("cannot be read: it is larger than the memory that is left.")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def test_a_file_that_is_cut_short_while_it_is_read_ends_no_process(saved):
    """A mapped file would; the child reads while the parent cuts and mends."""
    code = """if True:
        import sys, time
        import leadline
        from leadline.files import models
        print("begun", flush=True)
        until = time.monotonic() + 1
        while time.monotonic() < until:
            try:
                models.read(sys.argv[1])
            except leadline.InvalidArgumentError:
                pass
    """
    size = 40_000_000
    text = json.dumps({"padding": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    saved.write_bytes(len(text).to_bytes(8, "little") + text)
    with subprocess.Popen([sys.executable, "-c", code, saved], stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        while process.poll() is None:
            os.truncate(saved, 8 + len(text) + size)
            time.sleep(0.001)
            os.truncate(saved, 8 + len(text))
            time.sleep(0.001)
    assert process.returncode == 0


@contextlib.contextmanager
def as_nobody():
    """Root may read everything; nobody may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_file_that_may_not_be_read_is_called_so(saved):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = f"{folder}/m"
        shutil.copy(saved, path)
        os.chmod(path, 0)
        with as_nobody():
            assert said_of(path).endswith("m cannot be read: Permission denied.")


def metadata_of(path):
    raw = path.read_bytes()
    return json.loads(raw[8 : header_length(raw)])["__metadata__"]


def test_a_format_of_the_future_is_refused_with_the_way_out(saved):
    metadata = {**metadata_of(saved), "format": "4", "leadline": "9.9"}
    save_file(load_file(saved), saved, metadata=metadata)
    assert said_of(saved) == (
        f"`path`: {saved} was written by Leadline 9.9 in format 4, and this version ({leadline.__version__}) reads "
        "formats up to 3; install a newer one."
    )


def test_only_modules_of_the_list_are_built(plain, saved):
    """A file made up with the right checksum, which asks for something else."""
    config, tensors = modelfile.read(saved)
    wrong = {**config, "model": {**config["model"], "module": "Popen"}}
    modelfile.write(saved, modelfile.file_of(wrong, tensors))
    with pytest.raises(InvalidArgumentError, match="holds a 'Popen', which this version does not know"):
        leadline.load(saved)
    modelfile.write(saved, modelfile.file_of({**config, "estimator": "Popen"}, tensors))
    with pytest.raises(InvalidArgumentError, match="holds 'Popen', which this version does not know"):
        leadline.load(saved)


def _changed(config, where, value):
    """The configuration with another value at the place."""
    config = json.loads(json.dumps(config))
    *path, last = where
    inside = config
    for name in path:
        inside = inside[name]
    inside[last] = value
    return config


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("fitted", "seed_"), 10**30),
        (("fitted", "seed_"), -1),
        (("fitted", "n_features_in_"), 7),
        (("parameters", "noise"), "loud"),
        (("parameters", "recipe"), "secret"),
        (("parameters", "checkpoint_dir"), "/tmp/elsewhere"),
        (("parameters", "callback"), "print"),
        (("model", "fields", "network", "module"), "NormalDepth"),
    ],
)
def test_a_description_that_no_training_gives_is_refused(numbers, tmp_path, where, value):
    """The checksum is right: somebody has meant it."""
    numbers.save(tmp_path / "m")
    config, tensors = modelfile.read(tmp_path / "m")
    modelfile.write(tmp_path / "m", modelfile.file_of(_changed(config, where, value), tensors))
    with pytest.raises(InvalidArgumentError, match=r"^`"):
        leadline.load(tmp_path / "m")


@pytest.mark.parametrize("harm", ["no runs", "not finite", "a spread below 0", "many samples"])
def test_numbers_that_no_training_gives_are_refused(numbers, tmp_path, harm):
    numbers.save(tmp_path / "m")
    config, tensors = modelfile.read(tmp_path / "m")
    of_model = [name for name in tensors if name.startswith("model.")]
    if harm == "no runs":
        tensors |= {name: tensors[name][:0] for name in of_model} | {"restart_shares_": np.zeros(0)}
    elif harm == "not finite":
        some = next(name for name in of_model if tensors[name].dtype.kind == "f")
        tensors[some] = np.full_like(tensors[some], np.nan)
    elif harm == "a spread below 0":
        tensors["spread_"] = -tensors["spread_"]
    else:
        recipe = dataclasses.asdict(leadline.RECIPES["leadline"]) | {"n_samples": 2**31 - 1}
        config = _changed(config, ("parameters", "recipe"), recipe)
    modelfile.write(tmp_path / "m", modelfile.file_of(config, tensors))
    with pytest.raises(InvalidArgumentError, match=r"^`"):
        leadline.load(tmp_path / "m")


@pytest.mark.parametrize("harm", ["weights", "a quantile", "two quantiles", "shares", "units", "a scale of 0"])
def test_what_would_predict_nan_is_refused(numbers, tmp_path, harm):
    """All of it finite, and the checksum right."""
    numbers.save(tmp_path / "m")
    config, tensors = modelfile.read(tmp_path / "m")
    quantiles = [
        ("model", "fields", "depth_posterior", "fields", f"{end}_quantile", "value") for end in ("lower", "upper")
    ]
    if harm == "weights":
        tensors |= {name: np.full_like(a, 9e17) for name, a in tensors.items() if name.endswith("weight_mean")}
    elif "quantile" in harm:
        config = _changed(config, quantiles[1], 1e308 if harm == "a quantile" else 0.3)
        config = config if harm == "a quantile" else _changed(config, quantiles[0], 0.7)
    elif harm == "shares":
        tensors["restart_shares_"] = np.full_like(tensors["restart_shares_"], 1e300)
    elif harm == "units":
        config["fitted"]["y_scale_"] = 1e308
    else:
        tensors["x_scale_"] = np.zeros_like(tensors["x_scale_"])
    modelfile.write(tmp_path / "m", modelfile.file_of(config, tensors))
    with pytest.raises(InvalidArgumentError, match=r"^`.*(not finite|quantile|shares of 1)"):
        leadline.load(tmp_path / "m")


@pytest.mark.parametrize("name", ["a{}_", "history.{}", "model.{}"])
def test_a_header_of_many_names_takes_no_minute(plain, saved, name):
    """80,000 took 129 s once, which grew with their square."""
    config, tensors = modelfile.read(saved)
    more = {name.format(i): np.zeros(1, np.float32) for i in range(20_000)}
    modelfile.write(saved, modelfile.file_of(config, tensors | more))
    begin = time.process_time()
    leadline.load(saved)
    assert time.process_time() - begin < 3


def test_a_model_without_the_layers_that_it_needs_does_not_predict(numbers, tmp_path):
    numbers.save(tmp_path / "m")
    config, tensors = modelfile.read(tmp_path / "m")
    deeper = [name for name in tensors if name.startswith("model.") and ".deeper." in name]
    modelfile.write(
        tmp_path / "m", modelfile.file_of(config, tensors | {name: tensors[name][:, :0] for name in deeper})
    )
    with pytest.raises(InvalidArgumentError, match="must store all layers that q\\(L\\) needs, but its capacity is 0"):
        leadline.load(tmp_path / "m").predict(LINE[:3])


@pytest.mark.parametrize("number", ["²", "", "-1", "1" * 5000, "one"])
def test_a_format_that_is_no_number_is_refused(saved, number):
    save_file(load_file(saved), saved, metadata={**metadata_of(saved), "format": number})
    assert said_of(saved) == f"`path`: {saved} is a safetensors file, but not one of Leadline's."


def test_a_regressor_of_an_older_version_has_equal_restarts(numbers, tmp_path):
    """Written before predictions were calibrated."""
    numbers.save(tmp_path / "m")
    config, tensors = modelfile.read(tmp_path / "m")
    older = {name: tensor for name, tensor in tensors.items() if name not in ("restart_shares_", "spread_")}
    assert len(older) == len(tensors) - 2
    modelfile.write(tmp_path / "m", modelfile.file_of(config, older))
    back = leadline.load(tmp_path / "m")
    n_restarts = back.model_.runs[0]
    np.testing.assert_array_equal(back.restart_shares_, np.full(n_restarts, 1 / n_restarts))
    np.testing.assert_array_equal(back.spread_, [1.0])
    assert np.isfinite(back.predict_interval(LINE[:3])).all()


# Saving


def test_a_depth_family_of_ones_own_is_one_sentence_and_leaves_the_old_file(plain, saved):
    before = saved.read_bytes()
    own = GeometricDepth(jnp.array(0.4))
    as_parameter = pickle.loads(pickle.dumps(plain)).set_params(depth=(own, own))
    learned = pickle.loads(pickle.dumps(plain))
    learned.model_ = eqx.tree_at(lambda m: m.depth_posterior, plain.model_, own)
    for est, name in ((as_parameter, "parameters.prior"), (learned, "model.depth_posterior")):
        with pytest.raises(InvalidArgumentError) as error:
            est.save(saved)
        assert str(error.value) == (
            f"`{name}` is a GeometricDepth, which a model file holds only where it is registered: call "
            "`leadline.register(GeometricDepth, name=...)`, or pickle the estimator instead."
        )
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_a_class_is_known_by_more_than_its_name(plain, tmp_path):
    namesake = type("NormalDepth", (GeometricDepth,), {})(jnp.array(0.4))
    with pytest.raises(InvalidArgumentError, match="is a NormalDepth, which a model file holds only where"):
        pickle.loads(pickle.dumps(plain)).set_params(depth=(namesake, namesake)).save(tmp_path / "m")


def test_a_disk_that_is_full_leaves_the_old_file(plain, saved):
    """The process may not write more than a few kB into one file, so that the save fails half way."""
    before = saved.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, hard))
    try:
        with pytest.raises(InvalidArgumentError, match="File too large"):
            plain.save(saved)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]  # and no part of the new one


def test_a_place_that_is_not_there_is_one_sentence(plain, tmp_path):
    path = tmp_path / "below" / "m"
    with pytest.raises(InvalidArgumentError) as error:
        plain.save(path)
    assert str(error.value) == f"`path`: cannot write {path}: No such file or directory; choose another place."


def test_what_is_no_file_is_not_replaced(plain, tmp_path):
    """A folder, or a device such as /dev/null, which a careless `os.replace` would remove."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe):
        with pytest.raises(InvalidArgumentError) as error:
            plain.save(path)
        assert str(error.value) == f"`path` must be a file, got {path}, which is something else."
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_file_has_the_rights_of_any_other(plain, saved, tmp_path):
    (tmp_path / "other").write_text("")
    assert saved.stat().st_mode == (tmp_path / "other").stat().st_mode


SAVE_FOR_EVER = """if True:
    import sys
    import leadline
    import numpy as np
    est = leadline.load(sys.argv[1])
    est.history_["padding"] = np.random.default_rng(0).normal(size=4_000_000)  # 32 MB: a save takes its time
    for est.n_iter_ in range(1000, 10**9):
        est.save(sys.argv[1])
        print(est.n_iter_, flush=True)
"""


def test_a_process_killed_while_it_saves_leaves_a_whole_file(plain, saved):
    """SIGKILL in the middle: the part of a file lies beside the one that was whole before."""
    expected = plain.predict_proba(PLANE)
    process = subprocess.Popen([sys.executable, "-c", SAVE_FOR_EVER, saved], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "1000\n", process.poll()
        assert saved.stat().st_size > 32_000_000
        half_done, limit = False, time.monotonic() + 60
        while not half_done and time.monotonic() < limit:
            half_done = any(size > 0 for name, size in _sizes(saved.parent).items() if name != saved.name)
        assert half_done
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert len(os.listdir(saved.parent)) > 1
    back = leadline.load(saved)
    assert back.n_iter_ >= 1000
    np.testing.assert_array_equal(back.predict_proba(PLANE), expected)
    plain.save(saved)  # what lies beside it does no harm
    assert leadline.load(saved).n_iter_ == plain.n_iter_


def _sizes(folder):
    """Of the files, but for those that are gone before one looks at them."""
    sizes = {}
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):
            sizes[entry.name] = entry.stat().st_size
    return sizes
