"""Chunks as tasks of Ray: on this machine, or on the machines of a cluster."""

import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, ClassVar

from leadline._checks import InvalidArgumentError, check_at_least, check_integer
from leadline._foreign import on_one_line
from leadline.backend.device import n_cores, networks_that_fit
from leadline.studies.runners.base import Failed, Runner, Slots, Work, share_of
from leadline.training.bursts import Progress
from leadline.training.interruption import Interruption

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else it warns that a later version will do so
    "RAY_task_oom_retries": "2",  # it would try a chunk for ever that is too large for a node
}
"""In the environment of Ray, where nothing else is said there: it reports to nobody, and keeps what it thinks to
itself."""

PACKAGES = ("leadline", "jax", "ray")
"""Whose versions must be the same everywhere: what a chunk gives, and how it is sent, depends on them."""

EVERY = 1.0
"""Seconds between two words from a worker."""

PATIENCE = 20
"""Seconds for chunks that are told to stop to write down where they are."""


@dataclass(frozen=True)
class RayRunner(Runner):
    """Carries out the chunks of a sweep by Ray: a slot for every GPU of the cluster, or for every core.

    Data that several chunks need are sent once. What a worker or a node had in hand when it died is begun again
    elsewhere, from its last checkpoint where the directory of the sweep is seen from there. Needs the extra `ray`.

    Args:
        address: of a cluster: `auto` inside a job or on one of its machines, `ray://HOST:PORT` from outside. None: Ray
            is started on this machine, and ended with the sweep. Where this process has called `ray.init` already,
            that cluster is used, whatever is said here.
        cores: of a slot; so many threads train its chunk.
        gpus: of a slot. None: one, where the cluster has any.
        attempts: how often a chunk is begun at most.

    Examples:
        >>> from leadline import RayRunner
        >>> RayRunner("ray://head:10001", cores=4).address
        'ray://head:10001'
    """

    address: str | None = None
    cores: int = 1
    gpus: float | None = None
    attempts: int = 3

    is_elsewhere: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_integer("cores", self.cores, 1)
        check_integer("attempts", self.attempts, 1)
        if self.gpus is not None:
            check_at_least("gpus", self.gpus, 0)

    @contextmanager
    def ready(self) -> Iterator[Slots]:
        """Be connected while it lasts.

        Returns:
            The slots of the cluster.
        """
        with self._connected():
            _check_nodes()
            shape, n = self._shape(), self._n_slots()
            if n == 0:
                needs = f"{self.cores} cores" + (f" and {shape['num_gpus']:g} GPUs" if "num_gpus" in shape else "")
                raise InvalidArgumentError(f"must be a cluster with a node of {needs}, and has none.", "on")
            networks = _call(networks_that_fit, **shape) if shape.get("num_gpus") else 1
            yield Slots(n, networks)

    def run(self, chunks: Sequence[Any], work: Work) -> Iterator[Any]:
        """Yield what came of the chunks, as soon as it did.

        Args:
            chunks: what to do, each in one program.
            work: how.
        """
        with self._connected(), Interruption() as interruption:
            flight = _Flight(self, chunks, work)
            try:
                while flight.goes_on:
                    yield from flight.landed()
                    if interruption.asked:
                        work.stopped.set()
                        yield from flight.stop()
                        return
            finally:
                flight.cancel()

    @contextmanager
    def _connected(self) -> Iterator[None]:
        if find_spec("ray") is None:
            raise InvalidArgumentError('needs Ray; `pip install "leadline[ray]"` brings it.', "on")
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray
        if ray.is_initialized():
            yield
            return
        handlers = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            self._knock()
            with warnings.catch_warnings():
                # It forks, and the child becomes another program at once: it never waits for the threads of JAX.
                warnings.simplefilter("ignore")
                ray.init(**self._how())
        except (OSError, RuntimeError, ValueError, AssertionError) as error:
            raise InvalidArgumentError(self._why(error), "on") from error
        if threading.current_thread() is threading.main_thread():
            for one, handler in handlers.items():
                signal.signal(one, handler)  # Ray has put its own there
        try:
            yield
        finally:
            ray.shutdown()

    def _knock(self) -> None:
        """See whether somebody is there: Ray would wait for half a minute."""
        if self.address is not None and self.address.startswith("ray://"):
            host, _, port = self.address.removeprefix("ray://").rpartition(":")
            with socket.create_connection((host, int(port)), timeout=10):
                pass

    def _how(self) -> dict[str, Any]:
        """Arguments of `ray.init`."""
        quiet = {"logging_level": "CRITICAL", "log_to_driver": False}
        if self.address is None:
            here = {"address": "local", "num_cpus": n_cores(), "include_dashboard": False}
            return quiet | here | {"_node_ip_address": "127.0.0.1"}
        if self.address.startswith("ray://"):
            return {"address": self.address, "logging_level": "CRITICAL"}
        return quiet | {"address": self.address}

    def _why(self, error: Exception) -> str:
        """What is wrong with the cluster."""
        said = on_one_line(str(error)).strip().rstrip(".")
        if "version" in said.lower():  # of Python or of Ray, at the head: Ray's own words are the best there are
            return f"must be a cluster with the versions that are here: {said}."
        if self.address is None:
            return f"is `ray`, and Ray cannot be started on this machine: {said}."
        where = "on this machine; `ray start` makes one" if self.address == "auto" else f"at {self.address}"
        return f"must be a cluster that is there, and none is found {where}."

    def _shape(self) -> dict[str, float]:
        """What a chunk needs of a node."""
        import ray

        gpus = self.gpus if self.gpus is not None else float(ray.cluster_resources().get("GPU", 0) > 0)
        return {"num_cpus": self.cores, **({"num_gpus": gpus} if gpus else {})}

    def _n_slots(self) -> int:
        """That there are now: a cluster may grow."""
        import ray

        shape, n = self._shape(), 0
        for node in ray.nodes():
            has = node["Resources"] if node["Alive"] else {}
            n += int(min(has.get(name[4:-1].upper(), 0) // need for name, need in shape.items()))
        return n


@dataclass
class _Flight:
    """The tasks that are under way."""

    runner: RayRunner
    chunks: Sequence[Any]
    work: Work
    begun: int = 0
    """How many chunks Ray has been given."""
    under_way: dict[Any, int] = field(default_factory=dict)
    """The number of the chunk of every task."""
    heard: set[int] = field(default_factory=set)
    """The numbers of chunks that a worker has spoken of."""
    sent: dict[Callable[[], Any], Any] = field(default_factory=dict)
    """Data in Ray's store, by what makes them."""

    def __post_init__(self) -> None:
        import ray

        self.train, self.versions = ray.put(self.work.train), _versions(PACKAGES)
        tries = {"max_retries": self.runner.attempts - 1, "retry_exceptions": True}
        self.task = ray.remote(_carry_out).options(**self.runner._shape(), **tries)
        self.meter = ray.remote(_meter()).options(num_cpus=0, max_restarts=-1).remote()
        self.last_use = {make: i for i, chunk in enumerate(self.chunks) for make in self.work.needs(chunk)}
        self.asked: Any = None

    @property
    def goes_on(self) -> bool:
        """Whether there is something to wait for."""
        return bool(self.under_way) or self.begun < len(self.chunks)

    def landed(self) -> Iterator[Any]:
        """What has come since, after a while at most; and what is next is given to Ray, a few more than there are
        slots, so that none waits, and data are not sent before their time."""
        import ray

        most = 2 * max(1, self.runner._n_slots())
        while self.begun < len(self.chunks) and len(self.under_way) < most:
            self._begin(self.begun)
            self.begun += 1
        finished, _ = ray.wait(list(self.under_way), timeout=0.25)
        for task in finished:
            i = self.under_way.pop(task)
            came = self._came_of(task, i)
            self.work.report(i, 1.0, "")
            if came is not None:
                yield came
        self._hear()

    def _begin(self, i: int) -> None:
        import ray

        makers = self.work.needs(self.chunks[i])
        for make in makers:
            if make not in self.sent:
                self.sent[make] = ray.put(make())
        made = [self.sent[make] for make in makers]
        self.under_way[self.task.remote(self.train, self.chunks[i], i, self.meter, self.versions, *made)] = i
        for make in makers:
            if self.last_use[make] == i:
                self.sent.pop(make, None)  # the task has it

    def _came_of(self, task: Any, i: int) -> Any:
        import ray
        from ray import exceptions

        try:
            came, notes = ray.get(task)
        except exceptions.TaskCancelledError:
            return None
        except exceptions.RayError as error:
            why = getattr(error, "cause", None) or error
            first = str(why).strip().partition("\n")[0]
            return Failed(self.chunks[i], f"{type(why).__name__}: {first}")
        for note in notes:
            warnings.warn(note, stacklevel=2)
        return came

    def _hear(self) -> None:
        """Pass on what workers have said, if the one who collects it has answered."""
        import ray
        from ray import exceptions

        with suppress(exceptions.RayError):  # its node died: it comes again, on another
            if self.asked is not None and ray.wait([self.asked], timeout=0)[0]:
                answer, self.asked = self.asked, None
                said: Any = ray.get(answer)
                for i, (share, who) in said.items():
                    self.heard.add(i)
                    if i in self.under_way.values():
                        self.work.report(i, share, who)
            if self.asked is None:
                self.asked = self.meter.said.remote()

    def stop(self) -> Iterator[Any]:
        """Have all tasks end soon, where they are written down, and give what was finished all the same."""
        import ray

        self.meter.end.remote()
        self.cancel([task for task, i in self.under_way.items() if i not in self.heard])
        finished, _ = ray.wait(list(self.under_way), num_returns=len(self.under_way) or 1, timeout=PATIENCE)
        for task in finished:
            came = self._came_of(task, self.under_way.pop(task))
            if came is not None and not isinstance(came, Failed):
                yield came

    def cancel(self, tasks: Sequence[Any] | None = None) -> None:
        """Some tasks, or all, end at once; those that have not begun never do."""
        import ray
        from ray import exceptions

        self.begun = len(self.chunks)
        for task in self.under_way if tasks is None else tasks:
            with suppress(exceptions.RayError):
                ray.cancel(task)


def _meter() -> Any:
    """The class of an actor that collects what workers say, and tells them to stop. It is sent as it stands here: a
    process that only listens need not import Leadline."""

    class Meter:
        def __init__(self) -> None:
            self._said: dict[int, tuple[float, str]] = {}
            self._over = False

        def hear(self, i: int, share: float, who: str) -> bool:
            """Whether the worker is to stop."""
            self._said[i] = share, who
            return self._over

        def end(self) -> None:
            self._over = True

        def said(self) -> dict[int, tuple[float, str]]:
            """What is new."""
            said, self._said = self._said, {}
            return said

    return Meter


def _carry_out(train: Any, chunk: Any, i: int, meter: Any, versions: dict[str, str], *made: Any) -> tuple[Any, list]:
    """In a worker: a chunk, and what there was to note."""
    import ray
    from ray import exceptions

    if wrong := _differing(_versions(PACKAGES), versions):
        raise InvalidArgumentError(f"`on`: a node of the cluster has {wrong}; give all the same.")
    who, last, over = f"{ray.util.get_node_ip_address()} (process {os.getpid()})", time.monotonic(), False
    answer = meter.hear.remote(i, 0.0, who)

    def report(now: Progress) -> None:
        nonlocal last, over, answer
        if time.monotonic() - last >= EVERY and ray.wait([answer], timeout=0)[0]:
            last = time.monotonic()
            with suppress(exceptions.RayError):  # its node died: it comes again, on another
                over = over or ray.get(answer)
            answer = meter.hear.remote(i, share_of(now), who)

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        came = train(chunk, made, report, lambda: over)
    ours = [one.message for one in heard if one.category.__module__.split(".")[0] == "leadline"]
    return came, ours


def _reader() -> Callable[[Sequence[str]], dict[str, str]]:
    """What gives the versions of Python and of packages where it is called. It is sent as it stands here, for nodes
    without Leadline can answer, too."""

    def versions(packages: Sequence[str]) -> dict[str, str]:
        import platform
        from importlib.metadata import PackageNotFoundError, version

        found = {"Python": ".".join(platform.python_version_tuple()[:2])}
        for name in packages:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                found[name] = "none"
        return found

    return versions


_versions = _reader()


def _differing(there: dict[str, str], here: dict[str, str]) -> str:
    """What is not the same, in words; empty where all is."""
    return ", ".join(f"{name} {there[name]} (here {here[name]})" for name in here if there[name] != here[name])


def _check_nodes() -> None:
    """Refuse a cluster whose nodes have other versions than there are here, before anything is trained."""
    import ray
    from ray import exceptions
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here, ask = _versions(PACKAGES), ray.remote(_reader())
    nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    for node, address in nodes.items():
        there = ask.options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))
        with suppress(exceptions.RayError):  # it has gone meanwhile; workers look again
            if wrong := _differing(ray.get(there.remote(PACKAGES)), here):
                raise InvalidArgumentError(
                    f"must be a cluster with the versions that are here, and node {address} has {wrong}.", "on"
                )


def _call(function: Callable[[], Any], **shape: float) -> Any:
    import ray

    return ray.get(ray.remote(function).options(**shape).remote())
