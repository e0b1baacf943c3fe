"""Forms as browsers, PowerShell, .NET, Java and libraries of other languages write them."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from service_app import Served, serving

HELLO = "Snow fell over the harbour."
FILE = 'form-data; name="file"; '


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("forms"), engine={"samples": 2400}) as served:
        yield served


def part(disposition: str, content: str = HELLO, **headers: str) -> str:
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"--B\r\nContent-Disposition: {disposition}\r\n{more}\r\n{content}\r\n"


def send(served: Served, form: str, path: str = "/v1/documents") -> httpx.Response:
    headers = {"Content-Type": "multipart/form-data; boundary=B"}
    return httpx.post(served.url + path, content=form.encode(), headers=headers)


@pytest.mark.parametrize(
    ("disposition", "title"),
    [
        (FILE + "filename*=utf-8''%E6%9D%B1%E4%BA%AC.txt", "東京"),  # urllib3/urllib3#900
        (FILE + "filename*=UTF-8'en'na%C3%AFve%20book.txt", "naïve book"),  # apache/commons-fileupload#24
        (FILE + "filename*=\"iso-8859-1''caf%E9.txt\"", "café"),
        (FILE + 'filename="=?utf-8?B?5p2x5LqsLnR4dA==?="', "東京"),  # PowerShell/PowerShell#19456
        (FILE + 'filename="=?utf-8?Q?na=C3=AFve.txt?="', "naïve"),
        (
            "form-data; name=file; filename=\"=?utf-8?B?5p2x5LqsLnR4dA==?=\"; filename*=utf-8''%E6%9D%B1%E4%BA%AC.txt",
            "東京",  # PowerShell/PowerShell#19467
        ),
        (FILE + 'filename="=?none?B?eA==?="', "=?none?B?eA==?="),
        (FILE + 'filename="say %22hi%22 at 100%25.txt"', 'say "hi" at 100%25'),  # whatwg/html#3040
        (FILE + 'filename="C:\\fakepath\\harbour.txt"', "harbour"),
        ("form-data; name=file; filename=harbour.txt", "harbour"),  # PowerShell/PowerShell#6780
        ('form-data; name="file"', HELLO),  # minio/minio#18235
        (FILE + 'filename=""', HELLO),
    ],
)
def test_the_name_of_a_file_is_read_in_every_spelling(served: Served, disposition: str, title: str) -> None:
    answer = send(served, part(disposition, Content_Type="text/plain") + "--B--\r\n")
    assert (answer.status_code, answer.json()["title"]) == (202, title)


def test_no_file_was_chosen_beside_a_text(served: Served) -> None:
    empty = part(FILE + 'filename=""', "", Content_Type="application/octet-stream")
    text = part('form-data; name="text"', HELLO)
    assert send(served, empty + text + "--B--\r\n").status_code == 202
    assert send(served, part('form-data; name="file"', "") + text + "--B--\r\n").status_code == 202


TITLE = part('form-data; name="title"', "Sea notes")


@pytest.mark.parametrize(
    ("form", "told"),
    [
        (part(FILE + 'filename=""', "", Content_Type="text/plain") + "--B--\r\n", "neither file nor text is given"),
        (part('form-data; name="file"', "harbour.txt") + "--B--\r\n", "of curl: -F file=@PATH"),
        (part(FILE + 'filename="a.txt"'), "ends within a part"),
        (part(FILE + 'filename="a.txt"') + TITLE, "ends within a part"),  # the title would be lost
        ((part(FILE + 'filename="a.txt"') + "--B--\r\n").replace("\r\n", "\n"), "CR LF between lines"),
        (part(FILE + 'filename="a.txt"').replace("--B", "--C") + "--C--\r\n", "after the boundary"),
        (
            part(FILE + 'filename="a.txt"', "U25vdw==", Content_Transfer_Encoding="base64") + "--B--\r\n",
            "encoded (base64): send it as it is",
        ),
    ],
)
def test_a_form_that_is_not_whole_or_coded_is_refused_with_what_to_send(served: Served, form: str, told: str) -> None:
    answer = send(served, form)
    assert answer.status_code == 400
    assert told in answer.json()["error"]["message"]


@pytest.mark.parametrize("end", ["--B--", "--B--\r\n\r\n", "--B\r\n"])
def test_the_end_of_a_form_may_be_short_or_long(served: Served, end: str) -> None:
    answer = send(served, part(FILE + 'filename="a.txt"', Content_Transfer_Encoding="binary") + TITLE + end)
    assert (answer.status_code, answer.json()["title"]) == (202, "Sea notes")
