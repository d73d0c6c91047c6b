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
from showing import A, B, C, resumed, show, tell, triangle

from botorch_pref.ax import PreferenceExperiment
from botorch_pref.ax.generation import question_choice
from botorch_pref.ax.log_store import LogStore
from botorch_pref.errors import ExperimentError, StorageError

NAME = "triangle.db"
resource = pytest.importorskip("resource", reason="modes and limits of POSIX")


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_the_mode_is_kept(mode, tmp_path) -> None:
    path = tmp_path / NAME
    experiment = triangle(path)
    path.chmod(mode)
    tell(experiment, [A, B], winner=0)
    assert S_IMODE(path.stat().st_mode) == mode
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_can_hold_no_file_is_named(tmp_path) -> None:
    with pytest.raises(StorageError, match=f"There is no folder {tmp_path}/away; make"):
        triangle(tmp_path / "away" / NAME)
    with pytest.raises(StorageError, match=f"There is no file .*{NAME}; create the"):
        resumed(tmp_path / NAME)
    with pytest.raises(StorageError, match=r"JSON file.*PreferenceExperiment\.read "):
        triangle(tmp_path / "triangle.json")
    assert hasattr(PreferenceExperiment, "read")
    (tmp_path / NAME).mkdir()
    with pytest.raises(StorageError, match=f"{NAME} is a folder; name a file in it"):
        triangle(tmp_path / NAME)


def test_a_new_file_has_the_mode_of_new_files(tmp_path) -> None:
    (tmp_path / "plain").touch()
    triangle(tmp_path / NAME).write_json(tmp_path / "log.json")
    modes = {S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


def test_a_linked_store_is_written_through(tmp_path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    target, link = tmp_path / "there" / f"a{NAME}", tmp_path / "here" / NAME
    link.symlink_to(target)
    experiment = triangle(link)
    tell(experiment, [A, B], winner=0)
    assert link.is_symlink()
    assert link.readlink() == target
    assert list(link.parent.iterdir()) == [link]
    assert list(target.parent.iterdir()) == [target]
    assert len(resumed(target).experiment.trials) == 1


def test_a_read_only_file_is_read_and_not_written(tmp_path) -> None:
    path, log = tmp_path / NAME, tmp_path / "log.json"
    experiment = triangle(path)
    question = show(experiment, A, B)
    log.touch()
    for file in (path, log):
        file.chmod(0o444)
    before = path.read_bytes()
    for write in (
        lambda: show(experiment, B, C),
        lambda: experiment.tell(question, winner=0),
        lambda: resumed(path).tell(question, winner=0),
        lambda: triangle(path),
        lambda: experiment.write_json(log),
    ):
        with pytest.raises(StorageError, match=r"Cannot .*read-only"):
            write()
        assert path.read_bytes() == before
    assert log.read_bytes() == b""
    assert resumed(path).pending == [question]
    assert resumed(path, read_only=True).pending == [question]
    assert {p.name for p in tmp_path.iterdir()} == {NAME, "log.json"}
    path.chmod(0o644)
    experiment.tell(question, winner=0)
    assert resumed(path).pending == []


def test_no_question_is_chosen_that_could_not_be_kept(tmp_path, monkeypatch) -> None:
    path = tmp_path / NAME
    experiment = triangle(path)

    def choose(*_: object) -> None:
        raise AssertionError("a question was chosen")

    monkeypatch.setattr(question_choice, "chosen_question", choose)
    with pytest.raises(StorageError, match="opened to be read"):
        resumed(path, read_only=True).ask(2)
    path.chmod(0o444)
    with pytest.raises(StorageError, match="read-only, and it is left"):
        experiment.ask(2)
    path.unlink()
    with pytest.raises(StorageError, match=r"(?i)there is no file"):
        experiment.ask(2)


def test_a_store_that_is_gone_or_no_file_is_said_so(tmp_path, monkeypatch) -> None:
    path = tmp_path / NAME
    experiment = triangle(path)
    question = show(experiment, A, B)
    away = path.rename(tmp_path / "away")
    acts = (
        lambda: experiment.tell(question, winner=0),
        lambda: show(experiment, B, C),
        lambda: resumed(path),
    )
    for act in acts:
        with pytest.raises(StorageError, match=f"(?i)there is no file {path}"):
            act()
        # It does not come back empty.
        assert not path.exists()
    with monkeypatch.context() as patch:
        # Not even where it goes between the look at it and its opening.
        patch.setattr(LogStore, "check_file", lambda *_, **__: None)
        for act in acts:
            with pytest.raises((StorageError, OSError)):
                act()
            assert not path.exists()
    os.mkfifo(path)
    with pytest.raises(StorageError, match=f"Cannot read {path}: .*no regular file"):
        PreferenceExperiment.read(path, storage=tmp_path / "new.db")
    with pytest.raises(ExperimentError, match=f"{path} cannot be read: .*no regular"):
        triangle(tmp_path / "other.db").record_table(path)
    for act in (*acts, lambda: triangle(path)):
        with pytest.raises(StorageError, match=f"{path} is no regular file"):
            act()
    path.unlink()
    away.rename(path)
    experiment.tell(question, winner=0)
    assert resumed(path).pending == []


def test_nothing_that_was_planted_is_written_to(tmp_path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine", encoding="utf-8")
    (tmp_path / "log.json.part").symlink_to(precious)
    triangle(tmp_path / NAME).write_json(tmp_path / "log.json")
    assert precious.read_text(encoding="utf-8") == "mine"
    assert {p.name for p in tmp_path.iterdir()} == {
        *(NAME, "log.json", "log.json.part", "precious")
    }


def test_what_is_no_file_is_not_replaced(tmp_path) -> None:
    experiment = triangle(tmp_path / NAME)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for name in ("", "pipe", "circle"):
        with pytest.raises(StorageError, match="Cannot write"):
            experiment.write_json(tmp_path / name)
    assert (tmp_path / "pipe").is_fifo()
    with pytest.raises(StorageError, match=f"no folder {tmp_path}/away; make it first"):
        experiment.write_json(tmp_path / "away" / "log.json")


def test_no_database_is_replaced_by_what_is_exported(tmp_path) -> None:
    experiment = triangle(tmp_path / NAME)
    question = show(experiment, A, B)
    (tmp_path / "link.json").symlink_to(tmp_path / NAME)
    triangle(tmp_path / "other.json.db")
    for name in (NAME, "link.json", "other.json.db"):
        before = (tmp_path / name).read_bytes()
        for write in (
            experiment.write_json,
            experiment.write_answers,
        ):
            with pytest.raises(StorageError, match="database; name another file"):
                write(tmp_path / name)
        assert (tmp_path / name).read_bytes() == before
    experiment.tell(question, winner=0)
    assert resumed(tmp_path / NAME).num_answers == 1


@pytest.mark.slow
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
    """Lets files grow to some size, as far as the system can play a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_loses_nothing(tmp_path) -> None:
    path, log = tmp_path / NAME, tmp_path / "log.json"
    experiment = triangle(path)
    tell(experiment, [A, B], winner=0)
    before = path.read_bytes()
    experiment.write_json(log)
    logged = log.read_bytes()
    question = show(experiment, B, C)
    with files_of_at_most(50), pytest.raises(StorageError, match="Cannot write"):
        experiment.write_json(log)
    assert log.read_bytes() == logged
    with files_of_at_most(len(before) // 2):
        for _ in range(2):
            with pytest.raises(StorageError, match=r"Cannot.*make room on the disk"):
                experiment.tell(question, winner=1)
    assert resumed(path).pending == [question]
    assert {*tmp_path.iterdir()} == {path, log}
    experiment.tell(question, winner=1)
    assert resumed(path).pending == []
    assert len(resumed(path).experiment.lookup_data().df) == 4


CREATORS = 4


def create(path: Path, seed: int, start: Barrier, answers: SimpleQueue) -> None:
    start.wait()
    try:
        triangle(path, seed=seed)
    except StorageError as error:
        answers.put(str(error))


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded", "ignore:os.fork.. was called"
)
def test_one_of_several_processes_creates_an_experiment(tmp_path) -> None:
    forked = get_context("fork")
    start, messages = forked.Barrier(CREATORS), forked.SimpleQueue()
    processes = [
        forked.Process(target=create, args=(tmp_path / NAME, seed, start, messages))
        for seed in range(CREATORS)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    errors = []
    while not messages.empty():
        errors.append(messages.get())
    assert len(errors) == CREATORS - 1
    assert all("already" in error for error in errors), errors
    assert resumed(tmp_path / NAME).settings.seed in range(CREATORS)
    assert list(tmp_path.iterdir()) == [tmp_path / NAME]
