"""`fab images`, `fab images-lock`: image builds and base image digests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fabric import task

from fleet.errors import FleetError
from fleet.images import pins
from fleet.images.build import Build, build_image
from fleet.images.image import ROLES, LocalImage, built_tag, names_images_by_manifest
from fleet.images.push import RECORD, check_registry, push, write_record
from fleet.images.revision import read_revision
from fleet.images.sbom import FOLDER, write_sbom
from tasks.base import HELP, ROOT, absolute_path, exit_with, print_json, reporting_errors, say, split_names

MEGABYTE = 1e6


@task(
    iterable=["image", "framework", "cache_from"],
    auto_shortflags=False,
    help={
        "image": f"only this image; repeat the option or separate with commas: {', '.join(ROLES)}",
        "base": "base image instead of the one in images/digests.lock, such as a mirror's: NAME@sha256:…",
        "framework": "ROLE=CHOICE: source of TensorFlow or torch: trainer=base|gpu|cpu, bark=index|base|cpu|cu128",
        "pip-config": "pip configuration file, mounted as a build secret",
        "apt-config": "apt configuration file, mounted as a build secret; for bases without Python",
        "ca-bundle": "CA certificate bundle, mounted as a build secret",
        "wheels": "directory of wheels that pip prefers over an index",
        "build-network": "network of the build steps, such as host",
        "cache-from": "ROLE=REFERENCE: earlier image whose unchanged layers are reused",
        "unpinned": "allow base images without a digest, for development",
        "push": "push to this registry, HOST/PATH, for the commit of the sources; the digests: build/images.json",
        "replace": "with --push: replace another image that the registry has for this commit",
        "json": HELP["json"],
    },
)
def images(
    _: Any,
    image: Sequence[str] | None = None,
    base: str = "",
    framework: Sequence[str] | None = None,
    pip_config: str = "",
    apt_config: str = "",
    ca_bundle: str = "",
    wheels: str = "",
    build_network: str = "",
    cache_from: Sequence[str] | None = None,
    unpinned: bool = False,
    push: str = "",
    replace: bool = False,
    json: bool = False,
) -> None:
    """Build the images of all services, each with a software bill of materials (SBOM)."""
    with reporting_errors():
        if replace and not push:
            raise FleetError("--replace needs --push")
        if push:
            check_registry(push)
        roles = _roles(image)
        frameworks, earlier = _by_role("framework", framework), _by_role("cache-from", cache_from)
        locked = pins.read(ROOT / pins.LOCK)
        bases = {role: pins.base_of(role, locked, base, unpinned=unpinned) for role in roles}
        done: list[dict[str, object]] = []
        for role in roles:
            say(f"{role}: building on {bases[role]}")
            how = Build(
                base=bases[role],
                pip_config=absolute_path(pip_config),
                ca_bundle=absolute_path(ca_bundle),
                network=build_network or None,
                role=role,
                apt_config=absolute_path(apt_config),
                wheels=absolute_path(wheels),
                framework=frameworks.get(role),
                cache_from=earlier.get(role),
            )
            built = build_image(ROOT, how)
            bill = write_sbom(built, ROOT / FOLDER)
            built = _pushed(built, role, push, replace=replace)
            write_record(ROOT / RECORD, {role: built})
            size = f"{built.size_bytes / MEGABYTE:.0f} MB"
            say(f"{role}: {built.reference} ({size}); SBOM: {bill.relative_to(ROOT)}")
            done.append(_document(role, built, bases[role], str(bill.relative_to(ROOT))))
        if names_images_by_manifest():
            say(
                "this engine has containerd's image store, which names an image by its manifest: without a registry, "
                "deploys from here and from engines with the classic store replace each other's containers"
            )
        if json:
            print_json({"images": done})


@task(
    name="images-lock",
    auto_shortflags=False,
    help={"out": f"lock file to write [default: {pins.LOCK}]", "json": HELP["json"]},
)
def images_lock(_: Any, out: str = "", json: bool = False) -> None:
    """Resolve the digests of all base and monitoring images; exit code 1 where one cannot be resolved."""
    with reporting_errors():
        path = absolute_path(out) or ROOT / pins.LOCK
        before = pins.read(path)
        result = pins.resolve_all(pins.sources(ROOT), before)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pins.text(result.pins), encoding="utf-8")
        for name, pin in result.pins.items():
            reason = result.failures.get(name)
            state = pin.digest or pins.UNRESOLVED
            say(
                f"{name}: {pin.image}: {state}"
                + (f" (kept; not resolved again: {reason})" if reason and pin.digest else "")
            )
            if reason and not pin.digest:
                say(f"  {reason}")
        if json:
            print_json(_lock_document(result))
        exit_with(good=all(pin.digest for pin in result.pins.values()))


def _roles(names: Sequence[str] | None) -> tuple[str, ...]:
    wanted = split_names(names)
    if strangers := sorted(set(wanted) - set(ROLES)):
        raise FleetError(f"--image {', '.join(strangers)}: expected one of {', '.join(ROLES)}")
    return tuple(role for role in ROLES if not wanted or role in wanted)


def _by_role(option: str, texts: Sequence[str] | None) -> dict[str, str]:
    found = {}
    for text in split_names(texts):
        role, _, value = text.partition("=")
        if not value or role not in ROLES:
            raise FleetError(f"--{option} {text}: expected ROLE=…, with a role of {', '.join(ROLES)}")
        found[role] = value
    return found


def _pushed(image: LocalImage, role: str, registry: str, *, replace: bool) -> LocalImage:
    if not registry:
        return image
    revision = read_revision(ROOT)
    commit = None if revision.fault else revision.commit
    say(f"{role}: pushing to {registry}" + (f" for commit {commit[:12]}" if commit else ""))
    pushed = push(image, role, registry, commit, replace=replace)
    if commit is None:
        name = f"{registry}/{image.release_tag}"
        say(f"{role}: {revision.fault}: it is not the image of a commit; deploy it with --image {role}={name}")
    return pushed


def _document(role: str, image: LocalImage, base: str, bill: str) -> dict[str, object]:
    return {
        "role": role,
        "built": built_tag(role),
        "id": image.id,
        "reference": image.reference,
        "digest": image.digest,
        "size_bytes": image.size_bytes,
        "base": base,
        "sbom": bill,
    }


def _lock_document(result: pins.LockResult) -> dict[str, object]:
    entries = [
        {"name": name, "image": pin.image, "digest": pin.digest, "failure": result.failures.get(name)}
        for name, pin in result.pins.items()
    ]
    return {"images": entries}
