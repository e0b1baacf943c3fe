"""Audiobook file (M4B): AAC in MP4 with chapter marks, tags and a cover, written by FFmpeg through PyAV."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, BinaryIO

from voxyard.speech.audio.encoder import STEP, EncodeError, on_one_cpu
from voxyard.speech.requests import SAMPLE_RATE

if TYPE_CHECKING:
    from av.container.core import Chapter
    from av.container.input import InputContainer
    from av.container.output import OutputContainer
    from av.video.stream import VideoStream

    from voxyard.speech.audio.encoder import Tags
    from voxyard.speech.requests import Audio

MEDIA_TYPE = "audio/mp4"
BIT_RATE = 64_000  # bit/s of mono speech
_CODER = {"aac_coder": "fast"}  # speech at this rate in a sixth of the time of the default, and nearer to the samples
_COVERS = {b"\xff\xd8\xff": "jpeg_pipe", b"\x89PNG\r\n\x1a\n": "png_pipe"}  # first bytes: FFmpeg's reader
_MOST_PIXELS = 40_000_000  # of a cover: FFmpeg decodes it to find its kind of pixels


@dataclass(frozen=True)
class ChapterMark:
    """Chapter from sample `start` on, up to the next one or the end."""

    title: str
    start: int


def write(
    file: BinaryIO,
    audio: Iterable[Audio],
    *,
    samples: int,
    tags: Tags,
    marks: Sequence[ChapterMark] = (),
    cover: bytes | None = None,
) -> None:
    """Write an audiobook of `samples` samples, mono at 24 kHz, into an empty file that can seek. Blocks.

    `audio` gives its parts, (n,) in [-1, 1]. The first chapter begins with the sound, each ends where the next begins.
    `cover` is a JPEG or PNG image.

    Raises:
        EncodeError: the cover is no such image, or FFmpeg fails.
    """
    import av
    from av.audio.frame import AudioFrame
    from av.audio.stream import AudioStream

    try:
        options = {"fflags": "+bitexact", "brand": "M4B "}  # bitexact: equal calls give equal bytes
        with av.open(file, "w", format="mp4", container_options=options) as container:
            metadata = tags.metadata()
            language = metadata.pop("language", None)  # of the sound
            container.metadata.update(metadata)
            stream = container.add_stream("aac", rate=SAMPLE_RATE, options={"flags": "+bitexact", **_CODER})
            if not isinstance(stream, AudioStream):
                raise EncodeError("the AAC encoder of this FFmpeg is no audio encoder")
            stream.layout, stream.format, stream.bit_rate = "mono", "fltp", BIT_RATE
            if language is not None:
                stream.metadata["language"] = language
            container.set_chapters(_chapters(marks, samples))
            image = None if cover is None else _open_cover(cover)
            picture = None if image is None else _add_picture(container, image)
            container.start_encoding()
            if image is not None and picture is not None:
                _write_picture(container, image, picture)
            position = 0
            for part in audio:
                for start in range(0, len(part), STEP):
                    frame = AudioFrame.from_ndarray(part[None, start : start + STEP], format="fltp", layout="mono")
                    frame.sample_rate, frame.pts = SAMPLE_RATE, position
                    with contextlib.nullcontext() if position else on_one_cpu():
                        container.mux(stream.encode(frame))
                    position += frame.samples
            container.mux(stream.encode(None))
    except av.FFmpegError as error:
        raise EncodeError(f"FFmpeg could not write the audiobook: {error}") from error


def _chapters(marks: Sequence[ChapterMark], samples: int) -> list[Chapter]:
    starts = [0 if at == 0 else mark.start for at, mark in enumerate(marks)]
    return [
        {
            "id": at,
            "start": start,
            "end": end,
            "time_base": Fraction(1, SAMPLE_RATE),
            "metadata": {"title": mark.title},
        }
        for at, (mark, start, end) in enumerate(zip(marks, starts, [*starts[1:], samples], strict=False))
    ]


def is_cover(image: bytes) -> bool:
    """True for an image that can be a cover: a JPEG or PNG that FFmpeg can read, and not too large."""
    import av

    try:
        with _open_cover(image) as found:
            picture = found.streams.video[0]
            return picture.width > 0 and any(packet.size for packet in found.demux(picture))
    except (EncodeError, av.FFmpegError, IndexError):
        return False


def _open_cover(image: bytes) -> InputContainer:
    import av

    for magic, reader in _COVERS.items():
        if image.startswith(magic):
            limits: Any = [{"max_pixels": str(_MOST_PIXELS)}]
            return av.open(io.BytesIO(image), "r", format=reader, stream_options=limits)
    raise EncodeError("the cover is neither a JPEG nor a PNG image")


def _add_picture(container: OutputContainer, image: InputContainer) -> VideoStream:
    from av.stream import Disposition

    picture = container.add_stream_from_template(image.streams.video[0])
    picture.disposition = Disposition.attached_pic
    return picture


def _write_picture(container: OutputContainer, image: InputContainer, picture: VideoStream) -> None:
    with image:
        for packet in image.demux(image.streams.video[0]):
            if packet.size:
                packet.stream, packet.pts, packet.dts = picture, 0, 0
                container.mux(packet)
                return
