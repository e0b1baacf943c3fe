"""Hosts of a run: their list and its refusals, rows dealt by place, the meeting before TensorFlow starts."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eventually import PATIENCE, eventually
from free_ports import free_port

from voxyard.corpus.demo import MARK
from voxyard.trainer import checkpoint
from voxyard.trainer.config import ModelConfig, TrainConfig
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.hosts import meeting
from voxyard.trainer.hosts.addresses import HostAddress, HostGroup, for_this_host, host_group, refuse_uneven, resolve
from voxyard.trainer.hosts.facts import facts_of
from voxyard.trainer.hosts.meeting import GPU, differences, meet
from voxyard.trainer.text.front_end import with_shared_text_front_end

THREE = "10.0.0.1:2222,10.0.0.2:2222,gpu-03:2223"


def config(**training: Any) -> TrainConfig:
    return TrainConfig.model_validate({"training": training})


def refusal(**training: Any) -> str:
    with pytest.raises(TrainerError) as refused:
        host_group(config(**training))
    assert refused.value.exit_code == 2
    return str(refused.value)


# -- the list --------------------------------------------------------------------------------------------------------


def test_a_list_and_an_index_make_a_group() -> None:
    group = host_group(config(strategy="multiworker", hosts=THREE, host_index=2))
    assert group is not None
    assert (group.count, group.is_first, group.name(2)) == (3, False, "host 2 (gpu-03:2223)")
    assert host_group(config()) is None


@pytest.mark.parametrize(
    ("training", "says"),
    [
        ({"strategy": "multiworker"}, "--strategy multiworker without --hosts"),
        ({"host_index": 0}, "--host-index without --hosts"),
        ({"allow_mixed": True}, "--allow-mixed without --hosts"),
        ({"restarts": 3}, "--restarts without --hosts"),
        ({"hosts": THREE}, "which of the 3 this host is"),
        ({"hosts": THREE, "host_index": 3}, "--host-index 3 is out of range: --hosts names 3 hosts, 0 to 2"),
        ({"hosts": "10.0.0.1:2222", "host_index": 0}, "names one host, expected at least two"),
        ({"hosts": "a:1,b:2,a:1", "host_index": 0}, "names a:1 twice"),
        ({"hosts": "a,b:2", "host_index": 0}, "found 'a', expected NAME:PORT"),
        ({"hosts": "a:1,b:70000", "host_index": 0}, "found 'b:70000'"),
        ({"hosts": "a:1,,b:2", "host_index": 0}, "found ''"),
        ({"hosts": THREE, "host_index": 0, "strategy": "mirrored"}, "--strategy mirrored cannot be used with --hosts"),
        ({"hosts": THREE, "host_index": 0, "strategy": "split"}, "--data-gpu ID --model-gpu ID for a split in each"),
    ],
)
def test_what_makes_no_group_is_refused(training: dict[str, Any], says: str) -> None:
    assert says in refusal(**training)


def test_only_private_addresses_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow's server asks nobody for a password."""
    for private in ("10.1.2.3", "172.31.0.1", "192.168.7.7", "100.64.0.9", "127.0.0.1"):
        assert resolve(HostAddress(private, 2222)) == private
    for public in ("8.8.8.8", "172.32.0.1", "100.128.0.1"):
        with pytest.raises(TrainerError, match=f"{public}, a public address"):
            resolve(HostAddress(public, 2222))

    def both(*_: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 2222)) for each in ("10.0.0.1", "1.2.3.4")]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    with pytest.raises(TrainerError, match=r"gpu-01 is 1\.2\.3\.4, a public address"):
        resolve(HostAddress("gpu-01", 2222))


def test_a_name_without_an_address_is_refused() -> None:
    with pytest.raises(TrainerError, match=r"nowhere\.invalid has no IPv4 address"):
        resolve(HostAddress("nowhere.invalid", 2222))


# -- its parts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 4])
def test_rows_are_dealt_by_place_each_once(count: int) -> None:
    group = [HostGroup((HostAddress("a", 1),) * count, index) for index in range(count)]
    rows = list(range(24))
    assert [row for each in group for row in rows[each.share(24)]] == rows
    assert len({each.share(24).stop - each.share(24).start for each in group}) == 1


def test_a_batch_that_cannot_be_dealt_is_refused_with_sizes_that_can() -> None:
    group = HostGroup((HostAddress("a", 1), HostAddress("b", 1), HostAddress("c", 1)), 0)
    refuse_uneven(group, 12)
    with pytest.raises(TrainerError, match="give 12 or 15"):
        refuse_uneven(group, 13)
    with pytest.raises(TrainerError, match=r"give 3$"):
        refuse_uneven(group, 2)


def test_all_but_the_first_write_beside_the_run(tmp_path: Path) -> None:
    first = config(hosts=THREE, host_index=0, checkpoint_dir=tmp_path / "run")
    assert for_this_host(first) is first
    other = for_this_host(config(hosts=THREE, host_index=1, checkpoint_dir=tmp_path / "run"))
    assert other.training.checkpoint_dir == tmp_path / "run" / "host-1"
    assert (other.telemetry.run, other.telemetry.tensorboard, other.telemetry.sample_text) == ("run", False, "")


# -- the meeting -----------------------------------------------------------------------------------------------------


def facts(**changes: str) -> dict[str, str]:
    chosen = config(hosts=THREE, host_index=0, batch_size=6)
    found = facts_of(chosen, gpu=None, precision="float32", xla=False, tensorflow="2.21.0", corpus="abc")
    return {**found, **changes}


def test_facts_hold_what_is_trained_and_not_where_it_is_kept() -> None:
    found = facts()
    assert {"voxyard", "TensorFlow", "Keras", "corpus", GPU, "--batch-size", "--seed", "--model-size"} <= found.keys()
    assert not {"--checkpoint-dir", "--num-workers", "--host-index"} & found.keys()


def test_unlike_hosts_are_named_with_both_values() -> None:
    group = HostGroup((HostAddress("a", 1), HostAddress("b", 2)), 0)
    said = differences(group, {0: facts(), 1: facts(TensorFlow="2.20.0")}, allow_mixed=True)
    assert "  TensorFlow: 2.21.0 on host 0 (a:1), 2.20.0 on host 1 (b:2)" in said
    unlike = {0: facts(**{GPU: "NVIDIA A10"}), 1: facts(**{GPU: "NVIDIA L4"})}
    assert "--allow-mixed" in differences(group, unlike, allow_mixed=False)
    assert differences(group, unlike, allow_mixed=True) == ""
    assert differences(group, {0: facts(), 1: facts()}, allow_mixed=False) == ""


class Meeting:
    """Hosts of one meeting, each a thread, on free ports of loopback."""

    def __init__(self, count: int) -> None:
        self.addresses = tuple(HostAddress("127.0.0.1", free_port()) for _ in range(count))

    def of(self, index: int) -> HostGroup:
        return HostGroup(self.addresses, index)

    def hold(self, *, wait: float = PATIENCE, places: tuple[int, ...] | None = None, **unlike: str) -> list[str]:
        """Refusal of each host, "" where it starts; the last one has the `unlike` facts."""
        places = places if places is not None else tuple(range(len(self.addresses)))
        said = [facts(**(unlike if position == len(places) - 1 else {})) for position in range(len(places))]

        def attend(position: int) -> str:
            try:
                meet(self.of(places[position]), said[position], wait=wait, allow_mixed=False)
            except TrainerError as error:
                return str(error)
            return ""

        with ThreadPoolExecutor(len(places)) as pool:
            return list(pool.map(attend, range(len(places))))


def test_hosts_that_fit_all_start() -> None:
    assert Meeting(3).hold() == ["", "", ""]


def test_hosts_that_do_not_fit_are_all_refused_with_the_same_words() -> None:
    said = Meeting(3).hold(voxyard="0.0.9")
    assert len(set(said)) == 1
    assert "voxyard: 0.1.0 on host 0" in said[0]
    assert "0.0.9 on host 2" in said[0]


def test_a_host_that_does_not_come_is_named() -> None:
    meeting = Meeting(3)
    first, second = meeting.hold(wait=6, places=(0, 1))
    assert f"no sign of {meeting.of(0).name(2)}" in first
    assert first == second
    (alone,) = meeting.hold(wait=1, places=(2,))
    assert f"no answer from {meeting.of(0).name(0)}" in alone


def test_one_place_is_not_taken_twice() -> None:
    """Two hosts with the same index; the second cannot even listen where both are one machine."""
    gathering = Meeting(3)
    hello = {"magic": meeting.MAGIC, "index": 1, "hosts": [str(each) for each in gathering.addresses], "facts": facts()}
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(gathering.hold, places=(0,))
        calls = [_said(gathering, hello), _said(gathering, hello)]
        assert "two hosts were started with --host-index 1" in first.result()[0]
        for call in calls:
            call.close()


def test_another_list_of_hosts_is_refused() -> None:
    gathering = Meeting(2)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(gathering.hold, places=(0,))
        call = _said(gathering, {"magic": meeting.MAGIC, "index": 1, "hosts": ["a:1", "b:2"], "facts": {}})
        assert "was started with --hosts a:1,b:2" in first.result()[0]
        call.close()


def test_a_stranger_is_ignored_and_a_host_that_goes_may_come_again(caplog: pytest.LogCaptureFixture) -> None:
    """The third host comes last: the meeting is not over before the first sees that the second has gone."""
    gathering = Meeting(3)
    hello = {"magic": meeting.MAGIC, "index": 1, "hosts": [str(each) for each in gathering.addresses], "facts": {}}
    with caplog.at_level("INFO"), ThreadPoolExecutor(1) as pool:
        first = pool.submit(gathering.hold, places=(0,))
        _said(gathering, {"GET": "/"}).close()
        _said(gathering, hello).close()  # gone before the answer: its facts do not count
        eventually(lambda: "is no host of a run: ignored" in caplog.text and "has gone again" in caplog.text)
        assert (gathering.hold(places=(1, 2)), first.result()) == (["", ""], [""])


def test_a_port_in_use_and_an_address_of_another_host_are_refused() -> None:
    gathering = Meeting(2)
    with socket.create_server(("127.0.0.1", gathering.addresses[0].port)):
        assert f"port {gathering.addresses[0].port} is in use" in gathering.hold(places=(0,))[0]
    elsewhere = HostGroup((HostAddress("192.168.255.254", 2222), gathering.addresses[1]), 0)
    with pytest.raises(TrainerError, match=r"192\.168\.255\.254 is no address of this host: is --host-index 0 right"):
        meet(elsewhere, facts(), wait=1, allow_mixed=False)


def _said(gathering: Meeting, line: dict[str, Any]) -> socket.socket:
    """A connection to the first host on which this was said."""
    end = threading.Event()
    while True:
        try:
            call = socket.create_connection(("127.0.0.1", gathering.addresses[0].port), PATIENCE)
        except ConnectionRefusedError:
            end.wait(0.05)
        else:
            call.sendall(json.dumps(line).encode() + b"\n")
            return call


# -- texts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "expected"), [({}, "characters"), ({"text_units": "phonemes"}, "phonemes")])
def test_a_host_without_the_checkpoint_reads_texts_as_the_first_one_that_resumes_it(
    tmp_path: Path, given: dict[str, Any], expected: str
) -> None:
    """The run is of a time before phonemes; what a host is given otherwise stays, and is refused later."""
    corpus = tmp_path / "corpus"
    (corpus / "wavs").mkdir(parents=True)
    (corpus / "metadata.csv").write_text("one|A text.|A text.\n")
    (corpus / MARK).touch()
    meta = {"config": {"model": {"text_units": "characters"}}}
    checkpoint.save(tmp_path / "first", 3, {"x": np.zeros(1, np.float32)}, meta, keep=3)
    ports = [free_port() for _ in range(2)]

    def chosen(place: int) -> ModelConfig:
        training = {
            "hosts": ",".join(f"127.0.0.1:{port}" for port in ports), "host_index": place, "hosts_wait": 60,
            "checkpoint_dir": tmp_path / ("first", "second")[place],
        }  # fmt: skip
        wanted = {"training": training, "data": {"train_data": corpus}, "model": given if place else {}}
        return with_shared_text_front_end(TrainConfig.model_validate(wanted)).model

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(chosen, range(2))
    assert (first.text_units, first.language, first.read_words) == ("characters", None, False)
    assert (second.text_units, second.read_words) == (expected, False)
