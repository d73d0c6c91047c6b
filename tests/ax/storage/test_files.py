"""Files of experiments keep their mode, their links and what others put beside them."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import SimpleQueue, get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from stat import S_IMODE

import pytest
from botorch_pref.ax.storage.whole_file import create_file
from showing import A, B, C, show, tell, triangle

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.errors import StorageError

resource = pytest.importorskip("resource", reason="modes and limits of POSIX")

STORES = ("triangle.db", "triangle.json")
PART = f".triangle.json.{'0' * 32}.part"


def resumed(path: Path) -> PreferenceExperiment:
    return PreferenceExperiment.resume("triangle", storage=path)


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_the_mode_is_kept(name, mode, tmp_path) -> None:
    path = tmp_path / name
    experiment = triangle(path)
    path.chmod(mode)
    tell(experiment, [A, B], winner=0)
    assert S_IMODE(path.stat().st_mode) == mode
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", STORES)
def test_a_place_that_can_hold_no_file_is_named(name, tmp_path) -> None:
    with pytest.raises(StorageError, match=f"There is no folder {tmp_path}/away; make"):
        triangle(tmp_path / "away" / name)
    with pytest.raises(StorageError, match=f"There is no file .*{name}; create the"):
        resumed(tmp_path / name)
    (tmp_path / name).mkdir()
    with pytest.raises(StorageError, match=f"{name} is a folder; name a file in it"):
        triangle(tmp_path / name)


def test_a_new_file_has_the_mode_of_new_files(tmp_path) -> None:
    (tmp_path / "plain").touch()
    triangle(tmp_path / "triangle.json").write_log(tmp_path / "log.csv")
    modes = {S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


@pytest.mark.parametrize("name", STORES)
def test_a_linked_store_is_written_through(name, tmp_path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    target, link = tmp_path / "there" / f"a{name}", tmp_path / "here" / name
    link.symlink_to(target)
    experiment = triangle(link)
    tell(experiment, [A, B], winner=0)
    assert link.is_symlink()
    assert link.readlink() == target
    assert list(link.parent.iterdir()) == [link]
    assert list(target.parent.iterdir()) == [target]
    assert len(resumed(target).experiment.trials) == 1


def test_nothing_that_was_planted_is_written_to(tmp_path) -> None:
    path, precious = tmp_path / "triangle.json", tmp_path / "precious"
    precious.write_text("mine", encoding="utf-8")
    for planted in ("triangle.json.part", PART):
        (tmp_path / planted).symlink_to(precious)
    tell(triangle(path), [A, B], winner=0)
    assert precious.read_text(encoding="utf-8") == "mine"
    # The other one is of a name that only this package gives.
    assert {p.name for p in tmp_path.iterdir()} == {
        *("triangle.json", "triangle.json.part", "precious")
    }


def test_what_a_killed_process_left_is_removed(tmp_path) -> None:
    path = tmp_path / "triangle.json"
    experiment = triangle(path)
    (tmp_path / PART).write_text("{", encoding="utf-8")
    (tmp_path / f"x{PART}").touch()
    show(experiment, A, B)
    assert {p.name for p in tmp_path.iterdir()} == {"triangle.json", f"x{PART}"}


def test_a_read_only_file_is_not_replaced(tmp_path) -> None:
    path, log = tmp_path / "triangle.json", tmp_path / "log.csv"
    experiment = triangle(path)
    log.touch()
    for file in (path, log):
        file.chmod(0o444)
    before = path.read_bytes()
    for write in (
        lambda: show(experiment, A, B),
        lambda: experiment.write_json(path),
        lambda: experiment.write_log(log),
    ):
        with pytest.raises(StorageError, match=r"Cannot write .*read-only"):
            write()
    assert path.read_bytes() == before
    assert log.read_bytes() == b""
    path.chmod(0o644)
    show(experiment, A, B)
    assert len(resumed(path).pending) == 1


def test_what_is_no_file_is_not_replaced(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.json")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for name in ("", "pipe", "circle"):
        with pytest.raises(StorageError, match="Cannot write"):
            experiment.write_log(tmp_path / name)
    assert (tmp_path / "pipe").is_fifo()


def test_a_file_is_created_once(tmp_path, monkeypatch) -> None:
    path = tmp_path / "one"
    create_file(path, b"first")
    with pytest.raises(StorageError, match="exists"):
        create_file(path, b"second")

    def no_links(*_args: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    with pytest.raises(StorageError, match="exists"):
        create_file(path, b"third")
    create_file(tmp_path / "other", b"fourth")
    assert path.read_text(encoding="utf-8") == "first"
    assert (tmp_path / "other").read_text(encoding="utf-8") == "fourth"
    assert len(list(tmp_path.iterdir())) == 2


def test_names_mean_the_files_that_they_name(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["a?1.db", "a?2.db", "a%20b.db", ":memory:", "file:c.db", "a#b;c.db"]
    (tmp_path / "elsewhere").mkdir()
    for seed, name in enumerate(names):
        experiment = triangle(name, seed=seed)
        monkeypatch.chdir(tmp_path / "elsewhere")
        show(experiment, A, B)
        monkeypatch.chdir(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*names, "elsewhere"])
    assert [resumed(Path(name)).settings.seed for name in names] == [*range(len(names))]


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """What the disk has no room for fails, as far as the system can play that."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("name", STORES)
def test_a_full_disk_loses_nothing(name, tmp_path) -> None:
    path = tmp_path / name
    experiment = triangle(path)
    tell(experiment, [A, B], winner=0)
    before = path.read_bytes()
    question = show(experiment, B, C)
    with files_of_at_most(len(before) // 2):
        for _ in range(2):
            with pytest.raises(StorageError, match="Cannot"):
                experiment.tell(question, winner=1)
    assert resumed(path).pending == [question]
    assert list(tmp_path.iterdir()) == [path]
    experiment.tell(question, winner=1)
    assert resumed(path).pending == []
    assert len(resumed(path).experiment.lookup_data().df) == 4


def test_a_log_that_does_not_fit_leaves_the_old_one(tmp_path) -> None:
    experiment = triangle(tmp_path / "triangle.json")
    log = tmp_path / "log.csv"
    experiment.write_log(log)
    before = log.read_bytes()
    tell(experiment, [A, B], winner=0)
    with files_of_at_most(50), pytest.raises(StorageError, match="Cannot write"):
        experiment.write_log(log)
    assert log.read_bytes() == before


CREATORS = 4


def create(path: Path, seed: int, start: Barrier, said: SimpleQueue) -> None:
    start.wait()
    try:
        triangle(path, seed=seed)
    except StorageError as error:
        said.put(str(error))


@pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded", "ignore:os.fork.. was called"
)
@pytest.mark.parametrize("name", STORES)
def test_one_of_several_processes_creates_an_experiment(name, tmp_path) -> None:
    forked = get_context("fork")
    start, said = forked.Barrier(CREATORS), forked.SimpleQueue()
    processes = [
        forked.Process(target=create, args=(tmp_path / name, seed, start, said))
        for seed in range(CREATORS)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    errors = []
    while not said.empty():
        errors.append(said.get())
    assert len(errors) == CREATORS - 1
    assert all("already" in error for error in errors), errors
    assert resumed(tmp_path / name).settings.seed in range(CREATORS)
    assert list(tmp_path.iterdir()) == [tmp_path / name]
