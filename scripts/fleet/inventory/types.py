"""Types of inventory values, for pydantic: ranges and forms, each with the words of its error."""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, GetCoreSchemaHandler, PlainValidator, Strict, ValidationInfo
from pydantic_core import PydanticCustomError, core_schema

from voxyard.settings.values import found_words

_HOST_NAME = r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?"
_REGISTRY_HOST = r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?:[0-9]{1,5}|[a-z0-9][a-z0-9-]*\.([a-z0-9.-]*[a-z0-9])|localhost"
_REGISTRY = rf"({_REGISTRY_HOST})(/[a-z0-9]([a-z0-9._-]*[a-z0-9])?)*"

DIRECTORY = r"(?:/[A-Za-z0-9_@+-][A-Za-z0-9_.@+-]*)+"


@dataclass(frozen=True, slots=True, repr=False)
class OddNumber:
    """Integer that is not written as a plain decimal number, such as 0022 or 0x16: no type accepts it."""

    text: str

    def __repr__(self) -> str:
        return f"the number {self.text}"


def refusal(sentence: str) -> PydanticCustomError:
    """Error of a validator with a message of its own."""
    return PydanticCustomError("refusal", "{sentence}", {"sentence": sentence})


def expected(what: str, value: object, advice: str = "") -> PydanticCustomError:
    """Error of a validator: what was expected, and what was found."""
    return refusal(f"expected {what}, found {found_words(value)}{advice}")


_FOREIGN = {  # words in keys of other programs' inventories
    "become": ": nothing runs as root: put the user into the group docker of the host",
    "sudo": ": nothing runs as root: put the user into the group docker of the host",
    "pass": ": logins are by key, certificate or Kerberos: see SSH in deploy/README.md",
    "<<": ": merge keys are not taken: what hosts share stands under defaults",
    "children": ": this is Ansible's form: the hosts stand under hosts, each with its keys",
    "key_check": ": host keys are always checked, against known_hosts",
    "_args": ": options of ssh are those of ~/.ssh/config, with ssh_config: true",
}
_SYNONYMS = {  # of other programs, without ansible_ and ssh_
    "address": ("host", "hostname", "ip", "addr", "fqdn"),
    "user": ("username", "remote_user", "login"),
    "port": ("port",),
    "identity_file": ("key", "keyfile", "private_key", "private_key_file", "identityfile"),
    "jump": ("proxy_jump", "proxyjump", "jump_host", "bastion", "proxy"),
    "groups": ("tags", "labels"),
    "hosts": ("all", "nodes", "servers"),
}


def meant(name: object, known: Iterable[str]) -> str:
    """Advice on an unknown name: the nearest one that is known, or all."""
    said = str(name).lower()
    if advice := next((advice for word, advice in _FOREIGN.items() if word in said), ""):
        return advice
    names, bare = tuple(known), said.removeprefix("ansible_").removeprefix("ssh_")
    synonyms = [each for each, others in _SYNONYMS.items() if each in names and bare in (each, *others)]
    near = synonyms or difflib.get_close_matches(str(name), names, n=1)
    return f": is {near[0]} meant?" if near else f", known are {', '.join(names)}"


@dataclass(frozen=True, slots=True)
class Between:
    """Integer in a range; true and false are none, nor is a number in quotes."""

    what: str
    least: int
    most: int

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        def words(value: Any, checked: Callable[[Any], Any]) -> Any:
            if isinstance(value, OddNumber):
                raise expected(f"{self}, a plain decimal number", value)
            return checked(value)

        number = core_schema.int_schema(strict=True, ge=self.least, le=self.most)
        worded = core_schema.custom_error_schema(number, "expected", custom_error_message=str(self))
        return core_schema.no_info_wrap_validator_function(words, worded)

    def __str__(self) -> str:
        return f"{self.what} from {self.least} to {self.most}"


@dataclass(frozen=True, slots=True)
class Matching:
    """Text of a form; the pattern is that of the whole text."""

    pattern: str
    what: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        text = core_schema.str_schema(strict=True, pattern=f"^(?:{self.pattern})$")
        return core_schema.custom_error_schema(text, "expected", custom_error_message=self.what)


def list_of(what: str = "", *, repeats: bool = False) -> BeforeValidator:
    """Check of a list: it is one, and has no entry twice unless `repeats`."""

    def checked(value: object) -> object:
        if not isinstance(value, list):
            advice = f": write [{', '.join(value.replace(',', ' ').split())}]" if isinstance(value, str) else ""
            raise expected(f"a list{what and f' of {what}'}", value, advice)
        if not repeats and any(each in value[:number] for number, each in enumerate(value)):
            raise refusal("the list has a duplicate entry")
        return value

    return BeforeValidator(checked)


def text(value: object) -> str:
    """Non-empty line of text. Raises PydanticCustomError."""
    if not isinstance(value, str) or not value.strip():
        raise expected("a string", value)
    if not value.isprintable():
        raise expected("a line of printable characters", value)
    return value


def path(value: object, info: ValidationInfo[Path]) -> Path:
    """Absolute path; a relative one is meant from the directory in the context. Raises PydanticCustomError."""
    local = Path(text(value))
    try:
        local = local.expanduser()
    except RuntimeError:
        raise refusal(unknown_home(str(local))) from None
    return (info.context / local).absolute()


def paths(value: object, info: ValidationInfo[Path]) -> tuple[Path, ...]:
    """One path, or a list of them, as `path` reads each. Raises PydanticCustomError."""
    found = tuple(path(each, info) for each in (value if isinstance(value, list) else [value]))
    if len(set(found)) < len(found):
        raise refusal("the list has a duplicate entry")
    return found


def unknown_home(found: str) -> str:
    """Error message for a path below the home of a user that this machine does not have."""
    user = found.partition("/")[0].removeprefix("~")
    return (
        f"found {found}, but this machine has no user {user}: write the whole path"
        if user
        else (f"found {found}, but the home directory is not known: set HOME, or write the whole path")
    )


def is_ip(found: str) -> bool:
    """True for an IPv4 or IPv6 address, with or without a zone."""
    try:
        ipaddress.ip_address(found)
    except ValueError:
        return False
    return True


def is_loopback(found: str) -> bool:
    """True for an address that only its own machine reaches."""
    try:
        return ipaddress.ip_address(found.partition("%")[0]).is_loopback
    except ValueError:
        return found == "localhost"


def bracketed(address: str) -> str:
    """Address for use before a port: IPv6 in brackets."""
    return f"[{address}]" if ":" in address else address


def _address(value: object) -> str:
    """IP address, IPv6 with or without brackets, or host name; without a port. Returned without brackets."""
    address = text(value)
    bare = address.removeprefix("[").removesuffix("]")
    if is_ip(address) or (address == f"[{bare}]" and ":" in bare and is_ip(bare)):
        return bare
    name, colon, number = address.rpartition(":")
    if colon and number.isdecimal() and (_is_name(name) or is_ip(name.strip("[]"))):
        raise expected("a name or an address without a port", value, ": use port")
    if not _is_name(address):
        advice = ": user and port have keys of their own" if {"@", "/"} & set(address) else ""
        raise expected("a name or an address", value, advice)
    return address


def is_address(value: object) -> bool:
    """True for an address that an inventory may name."""
    try:
        return bool(_address(value))
    except PydanticCustomError:
        return False


def _is_name(found: str) -> bool:
    """True for a host name; the last part of an address that has only numbers is no domain."""
    return bool(re.fullmatch(_HOST_NAME, found)) and not found.rstrip(".").rpartition(".")[2].isdecimal()


Text = Annotated[str, PlainValidator(text)]
Word = Annotated[str, Matching(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", "a name")]  # safe in a command line
Login = Annotated[str, Matching(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*", "a name")]  # the same, or one of a domain
Address = Annotated[str, PlainValidator(_address)]
LocalPath = Annotated[Path, PlainValidator(path)]
LocalPaths = Annotated[tuple[Path, ...], PlainValidator(paths)]
Switch = Annotated[bool, Strict()]
PORT = Between("a port", 1, 65535)
Port = Annotated[int, PORT]
# A slash at the end, as a shell completes directories, says nothing more.
WITHOUT_SLASH = BeforeValidator(lambda value: value.rstrip("/") or value if isinstance(value, str) else value)
RemoteDirectory = Annotated[str, Matching(DIRECTORY, "the whole path of a directory on the host"), WITHOUT_SLASH]
Seconds = Annotated[int, Between("seconds", 1, 3600)]
Registry = Annotated[
    str, Matching(_REGISTRY, "a registry as host[:port][/path], in lower case (docker.io/NAME)"), WITHOUT_SLASH
]
