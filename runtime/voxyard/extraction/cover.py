"""Cover: makes a picture of a document a small JPEG, in the sandbox, within a limit on its pixels."""

from __future__ import annotations

from fractions import Fraction

MOST_PIXELS = 40_000_000
"""Largest picture that is decoded: scans of covers have up to 25 million pixels."""
LONGEST_SIDE = 1400
"""Pixels of the cover's longest side, as stores of audiobooks show it."""
_DECODERS = {b"\xff\xd8\xff": "mjpeg", b"\x89PNG\r\n\x1a\n": "png"}  # by the first bytes


def small_cover(picture: bytes) -> bytes | None:
    """The picture as a JPEG of at most LONGEST_SIDE; None if it is too large, broken, or neither JPEG nor PNG."""
    decoder = next((name for magic, name in _DECODERS.items() if picture.startswith(magic)), None)
    if decoder is None:
        return None
    import av

    try:
        reader = av.CodecContext.create(decoder, "r")
        if not isinstance(reader, av.VideoCodecContext):
            return None
        reader.options = {"max_pixels": str(MOST_PIXELS)}  # looked at before memory is taken
        reader.thread_count = 1
        frame = next(iter([*reader.decode(av.Packet(picture)), *reader.decode(None)]), None)
        if frame is None:
            return None
        scale = min(1.0, LONGEST_SIDE / max(frame.width, frame.height))
        writer = av.VideoCodecContext.create("mjpeg", "w")
        writer.width, writer.height = (max(1, round(side * scale)) for side in (frame.width, frame.height))
        writer.pix_fmt, writer.time_base, writer.thread_count = "yuvj420p", Fraction(1), 1
        writer.options = {"qmin": "2", "qmax": "3", "flags": "+bitexact"}
        scaled = frame.reformat(writer.width, writer.height, "yuvj420p", interpolation="AREA")
        scaled.pts = 0
        return b"".join(bytes(packet) for packet in [*writer.encode(scaled), *writer.encode(None)])
    except (av.FFmpegError, ValueError):  # ValueError: a size that no JPEG has
        return None
