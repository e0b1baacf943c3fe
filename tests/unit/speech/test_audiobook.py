"""Audiobook files: chapters, cover, equal bytes."""

from __future__ import annotations

import io
import struct
import zlib

import av
import numpy as np
import pytest

from voxyard.speech.audio.audiobook import ChapterMark, is_cover, write
from voxyard.speech.audio.encoder import EncodeError, Tags
from voxyard.speech.requests import SAMPLE_RATE

SOUND = (np.sin(np.arange(3 * SAMPLE_RATE) / 20) / 2).astype(np.float32)
MARKS = [ChapterMark("One", 10), ChapterMark("Zwei ü", SAMPLE_RATE), ChapterMark("三", 2 * SAMPLE_RATE)]


def image(codec: str, pixels: str) -> bytes:
    """A picture of 16 × 16 pixels."""
    out = io.BytesIO()
    with av.open(out, "w", format="image2pipe") as container:
        stream = container.add_stream(codec, rate=1, options={"strict": "unofficial"})
        assert isinstance(stream, av.VideoStream)
        stream.width = stream.height = 16
        stream.pix_fmt = pixels
        frame = av.VideoFrame.from_ndarray(np.full((16, 16, 3), 90, np.uint8), format="rgb24")
        container.mux(stream.encode(frame.reformat(format=pixels)))
        container.mux(stream.encode(None))
    return out.getvalue()


def book(cover: bytes | None = None) -> bytes:
    file = io.BytesIO()
    parts = (SOUND[at : at + 5000] for at in range(0, len(SOUND), 5000))
    write(file, parts, samples=len(SOUND), tags=Tags("A book", "Ann Ode"), marks=MARKS, cover=cover)
    return file.getvalue()


@pytest.mark.parametrize(("codec", "pixels"), [("mjpeg", "yuvj420p"), ("png", "rgb24")])
def test_a_book_has_its_chapters_its_sound_and_its_cover(codec: str, pixels: str) -> None:
    cover = image(codec, pixels)
    assert is_cover(cover)
    content = book(cover)
    assert content[4:12] == b"ftypM4B "
    with av.open(io.BytesIO(content), "r") as found:
        assert (found.metadata["title"], found.metadata["artist"]) == ("A book", "Ann Ode")
        starts = [(each["metadata"]["title"], each["start"] * (each["time_base"] or 0)) for each in found.chapters()]
        assert starts == [("One", 0), ("Zwei ü", 1), ("三", 2)]
        assert found.streams.video[0].disposition == av.stream.Disposition.attached_pic
        assert bytes(next(found.demux(found.streams.video[0]))) == cover
        found.seek(0)
        sound = np.concatenate([frame.to_ndarray()[0] for frame in found.decode(audio=0)])
    assert len(sound) == pytest.approx(len(SOUND), abs=2048)
    assert float(np.std(sound[SAMPLE_RATE : 2 * SAMPLE_RATE])) == pytest.approx(np.std(SOUND), rel=0.05)


def test_equal_books_have_equal_bytes() -> None:
    assert book() == book()


def test_a_cover_of_too_many_pixels_is_refused_before_it_is_decoded() -> None:
    header = struct.pack(">IIBBBBB", 16_000, 16_000, 8, 0, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 16_001)), (b"IEND", b"")]
    packed = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    ]
    assert not is_cover(b"\x89PNG\r\n\x1a\n" + b"".join(packed))


def test_a_cover_that_is_no_image_is_refused() -> None:
    assert not is_cover(b"GIF89a")
    for content in (b"GIF89a" + bytes(50), b"\xff\xd8\xff" + bytes(50)):
        with pytest.raises(EncodeError):
            book(content)
