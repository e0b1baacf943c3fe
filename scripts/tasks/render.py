"""`fab render`: releases and training runs as files for Kubernetes and Slurm."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fabric import task

from fleet.errors import FleetError
from fleet.images.image import LocalImage
from fleet.images.push import RECORD, read_record
from fleet.images.wanted import wanted_image, warn_of_other_sources
from fleet.inventory.clusters import Cluster
from fleet.inventory.hosts import Inventory, Trainer
from fleet.release.artefact import ChecksumCache
from fleet.render import slurm
from fleet.render.cluster_release import image_roles, release_of
from fleet.render.documents import text_of
from fleet.render.files import LIST, write
from fleet.render.kubernetes import identified, overlay_files, pins, run_files
from fleet.render.monitors import base_files
from fleet.render.run import ClusterRun, read_run
from fleet.runs.config import RunSettings, flags_of, read_file
from tasks.base import COMPOSE, ROOT, absolute_path, load_inventory, reporting_errors, say, split_names

TARGETS = ("kubernetes", "slurm")
CHECKSUMS = ROOT / "build/checksums.json"
A_DAY = "1-00:00:00"
log = logging.getLogger("fleet")

_PUSH = 'make images ARGS="--push REGISTRY", or check that commit out'


@task(
    iterable=["set", "cluster"],
    auto_shortflags=False,
    help={
        "to": "target: kubernetes or slurm",
        "out": "directory for the files",
        "cluster": "kubernetes: only this cluster of the inventory; repeat the option or separate names with commas",
        "config": "settings file of a training run (YAML), as for `voxyard train --config`; kubernetes: optional",
        "run": "name of the run [default: that of the settings file, in lower case, with - for other characters]",
        "set": "setting as section.key=value, overrides the settings file; repeatable",
        "gpus": "number of GPUs of the run [default: as many as its settings name]",
        "nodes": "slurm: number of nodes that train together [default: 1]",
        "time": f"slurm: longest time of one start, after which the run requeues itself [default: {A_DAY}]",
        "memory": "slurm: memory of each node, such as 64G [default: what the partition gives]",
        "voxyard": "slurm: program `voxyard` on the nodes [default: the pushed trainer image, with Apptainer]",
        "inventory": "kubernetes: inventory file [default: deploy/hosts.yaml]",
    },
)
def render(
    _: Any,
    to: str,
    out: str,
    cluster: Sequence[str] | None = None,
    config: str = "",
    run: str = "",
    set: Sequence[str] | None = None,
    gpus: str = "",
    nodes: str = "",
    time: str = "",
    memory: str = "",
    voxyard: str = "",
    inventory: str = "",
) -> None:
    """Write releases and training runs as files for Kubernetes (kustomize) or Slurm (sbatch); contacts no host."""
    with reporting_errors():
        folder = absolute_path(out)
        if to not in TARGETS or folder is None:
            raise FleetError(f"found --to {to!r} and --out {out!r}, expected a target of {', '.join(TARGETS)} and DIR")
        of_slurm = {"time": time, "memory": memory, "voxyard": voxyard, "nodes": nodes}
        of_kubernetes = {"cluster": cluster, "inventory": inventory}
        of_runs = {"run": run, "set": set, "gpus": gpus}
        _refuse(to, of_kubernetes if to == "slurm" else of_slurm)
        if not config:
            _refuse("a rendering without --config", of_runs)
        wanted = _Wanted(config, run, set or (), _count("gpus", gpus))
        if to == "slurm":
            _slurm(folder, wanted, time or A_DAY, memory, voxyard, _count("nodes", nodes) or 1)
        else:
            _kubernetes(folder, wanted, load_inventory(inventory), split_names(cluster))


class _Wanted:
    """Options of a training run."""

    def __init__(self, config: str, name: str, settings: Sequence[str], gpus: int | None) -> None:
        self.file, self._shown = absolute_path(config), config
        self._name, self._settings, self._gpus = name, settings, gpus

    def run(self, image: str) -> ClusterRun:
        """Validated run on the image; its notes are printed. Raises FleetError."""
        flags = flags_of(self._settings, {})
        found = read_run(
            RunSettings(read_file(self.file), flags),
            image=image,
            file=Path(self._shown),
            name=self._name,
            gpus=self._gpus,
        )
        for note in found.notes:
            say(note)
        return found


def _slurm(folder: Path, wanted: _Wanted, time: str, memory: str, program: str, nodes: int) -> None:
    if wanted.file is None:
        raise FleetError("--config FILE is missing: name the settings file of the run")
    image = None if program else _images(["trainer"]).get("trainer")
    job = slurm.job_of(
        program=program,
        image=image.digest if image else None,
        time=time,
        memory=memory,
        stop_seconds=Trainer().stop_seconds,
        nodes=nodes,
    )
    run = wanted.run(job.trainer)
    write(folder / run.name, slurm.render(run, job, text_of(ROOT / slurm.TEMPLATE)))
    said = f"{run.gpus} GPUs" if run.gpus else "on CPUs"
    said = f"{said}, on {nodes} nodes" if nodes > 1 else said
    say(f"{folder / run.name}: run {run.name}, {said}, trainer {job.trainer}")
    say(f"copy the directory to a file system that all nodes share, then sbatch --chdir=DIR DIR/{slurm.SCRIPT}")


def _kubernetes(folder: Path, wanted: _Wanted, fleet: Inventory, names: Sequence[str]) -> None:
    clusters = _clusters(fleet, names)
    images = _images({"exporter", *(role for each in clusters for role in each.roles)})
    checksums = ChecksumCache(CHECKSUMS)
    places: dict[str, Mapping[str, bytes]] = {"base": base_files(ROOT, fleet.monitoring.runbook_url)}
    applied = []
    for each in clusters:
        release = identified(each, release_of(each, COMPOSE, _published(each, images), checksums), ROOT)
        places[f"overlays/{each.name}"] = overlay_files(each, release, ROOT)
        applied.append((f"overlays/{each.name}", f"release {release.id}"))
        if wanted.file is not None and "trainer" in each.roles:
            run = wanted.run(next(iter(pins(release, "trainer")))["digest"])
            places[f"runs/{each.name}/{run.name}"] = run_files(each, release, run, ROOT)
            applied.append((f"runs/{each.name}/{run.name}", f"run {run.name}"))
    if wanted.file is not None and not any(place.startswith("runs/") for place in places):
        raise FleetError(
            f"{', '.join(each.name for each in clusters)}: no cluster with the role trainer: add it to roles"
        )
    for place, files in places.items():
        write(folder / place, files)
    known = {each.name for each in fleet.clusters}
    for listed in sorted(folder.glob(f"overlays/*/{LIST}")):
        if listed.parent.name not in known:
            say(f"{listed.parent}: no cluster of the inventory any more: delete it from the cluster and here")
    for place, what in applied:
        say(f"{what}: kubectl apply --server-side --kustomize {folder / place}")


def _clusters(fleet: Inventory, names: Sequence[str]) -> tuple[Cluster, ...]:
    """Clusters of these names, all without names. Raises FleetError."""
    known = {each.name: each for each in fleet.clusters}
    if not known:
        raise FleetError(f"{fleet.path} has no clusters: add them as in deploy/hosts.example.yaml")
    if unknown := [name for name in names if name not in known]:
        raise FleetError(f"no cluster {', '.join(unknown)} in {fleet.path}: expected one of {', '.join(known)}")
    return tuple(each for each in fleet.clusters if not names or each.name in names)


def _images(used: Iterable[str]) -> dict[str, LocalImage]:
    """Images of the record of `fab images`, by role; empty where none were built.

    A warning says which of those of the roles `used` were built from another commit than this clone's.
    """
    images = read_record(ROOT / RECORD) if (ROOT / RECORD).is_file() else {}
    for role in sorted(set(used) & images.keys()):
        try:
            warn_of_other_sources(f"the image {role} of the last push", images[role], ROOT, _PUSH)
        except FleetError as error:  # a shallow clone
            log.warning("whether the images are of these sources is not known: %s", error)
            break
    return images


def _published(cluster: Cluster, images: Mapping[str, LocalImage]) -> Mapping[str, LocalImage]:
    """The images; for those that were not pushed to the cluster's registry from here, what it has for the commit."""
    found, registry = dict(images), cluster.registry
    for role in image_roles(cluster) if registry is not None else ():
        if role not in images or not (images[role].digest or "").startswith(f"{registry}/"):
            try:
                found[role] = wanted_image(role, registry, None, ROOT)
            except FleetError as error:
                log.warning("%s has no image %s for %s either: %s", registry, role, cluster.name, error)
    return found


def _count(option: str, given: str) -> int | None:
    """Number of an option, from 1 to 9999; None where it is not given. Raises FleetError."""
    if not given:
        return None
    if not re.fullmatch("[1-9][0-9]{0,3}", given):
        raise FleetError(f"--{option} {given}: expected a number from 1 to 9999, such as 2")
    return int(given)


def _refuse(target: str, options: dict[str, Any]) -> None:
    """Raises FleetError for options that have no effect."""
    if given := [f"--{name}" for name, value in options.items() if value]:
        raise FleetError(
            f"{', '.join(given)} {'has' if len(given) == 1 else 'have'} no effect with {target}: leave out"
        )
