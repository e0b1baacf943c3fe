"""The directory of audio files: it is the same on every host, and never that of other documents."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from documents import audio_of, new_document
from postgres_server import PostgresServer

from voxyard.service.audio.files import MARKER, AudioFolder
from voxyard.service.audio.shelf import check_shelf
from voxyard.service.audio.store import AudioStore
from voxyard.service.documents.store import Store
from voxyard.service.errors import StoreError

NEW = new_document(1)


@pytest.fixture(params=["sqlite", "postgres"])
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Path | str]:
    """Place of a new, empty store."""
    if request.param == "sqlite":
        return lambda name: tmp_path / f"{name}.sqlite"
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return lambda _: postgres.url()


@pytest.fixture
def store(new_place: Callable[[str], Path | str]) -> Iterator[Store]:
    made = Store(new_place("one"))
    yield made
    made.close()


@pytest.fixture
def other(new_place: Callable[[str], Path | str]) -> Iterator[Store]:
    made = Store(new_place("other"))
    yield made
    made.close()


def fill(folder: Path, store: Store) -> None:
    store.accept(NEW)
    AudioStore(AudioFolder(folder), quota=10**9).put(NEW.id, 0, audio_of(NEW, 0))


def test_an_empty_directory_becomes_that_of_the_documents(store: Store, other: Store, tmp_path: Path) -> None:
    folder = tmp_path / "audio"
    check_shelf(AudioFolder(folder), store, mark=True)
    fill(folder, store)
    for mark in (True, False):
        check_shelf(AudioFolder(folder), store, mark=mark)
        with pytest.raises(StoreError, match="has the audio of other documents than those of --store"):
            check_shelf(AudioFolder(folder), other, mark=mark)
    check_shelf(AudioFolder(tmp_path / "another"), other, mark=True)
    with pytest.raises(StoreError, match=f"its file {MARKER} is another one's.*mount the same directory"):
        check_shelf(AudioFolder(folder), other, mark=True)


def test_a_directory_that_is_not_mounted_is_refused(store: Store, tmp_path: Path) -> None:
    check_shelf(AudioFolder(tmp_path / "audio"), store, mark=True)
    (tmp_path / "mountpoint").mkdir()
    for mark in (True, False):
        with pytest.raises(StoreError, match=f"it has no file {MARKER}.*mount the same directory on each host"):
            check_shelf(AudioFolder(tmp_path / "mountpoint"), store, mark=mark)
    assert list((tmp_path / "mountpoint").iterdir()) == []


def test_audio_of_other_documents_is_never_taken_over(store: Store, other: Store, tmp_path: Path) -> None:
    fill(tmp_path / "audio", store)
    with pytest.raises(StoreError, match="which would be deleted: choose an empty place as --shelf"):
        check_shelf(AudioFolder(tmp_path / "audio"), other, mark=True)
    check_shelf(AudioFolder(tmp_path / "audio"), store, mark=True)


def test_a_directory_of_a_service_alone_gets_no_marker(store: Store, tmp_path: Path) -> None:
    fill(tmp_path / "audio", store)
    check_shelf(AudioFolder(tmp_path / "audio"), store, mark=False)
    assert not (tmp_path / "audio" / MARKER).exists()


def test_files_may_move_with_their_marker(store: Store, tmp_path: Path) -> None:
    check_shelf(AudioFolder(tmp_path / "audio"), store, mark=True)
    fill(tmp_path / "audio", store)
    shutil.move(tmp_path / "audio", tmp_path / "moved")
    check_shelf(AudioFolder(tmp_path / "moved"), store, mark=True)


def test_services_that_start_at_once_agree_on_the_marker(postgres: PostgresServer, tmp_path: Path) -> None:
    for attempt in range(5):
        url = postgres.url()
        stores = [Store(url) for _ in range(4)]
        failures: list[StoreError] = []

        def start(store: Store, folder: Path = tmp_path / str(attempt), failures: list[StoreError] = failures) -> None:
            try:
                check_shelf(AudioFolder(folder), store, mark=True)
            except StoreError as error:
                failures.append(error)

        threads = [threading.Thread(target=start, args=(store,)) for store in stores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len({store.shelf() for store in stores}) == 1
        for store in stores:
            store.close()


def test_a_directory_that_cannot_be_made_is_named(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot use the audio directory .*file/audio: .*choose another --shelf"):
        check_shelf(AudioFolder(tmp_path / "file" / "audio"), store, mark=True)
