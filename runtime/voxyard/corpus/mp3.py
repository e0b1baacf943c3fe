"""Length of an MP3 by its frames, which a header that was never filled in does not say."""

from __future__ import annotations

_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}  # by version, Hz
_KBITS = {
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),  # MPEG 1
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),  # MPEG 2 and 2.5
}


def mp3_samples(raw: bytes) -> int:
    """Samples of each channel in the frames of layer III that follow each other, 0 where there are none.

    ISO/IEC 11172-3, 2.4.1.3; a tag before them (ID3v2) is skipped.
    """
    at = _tag_bytes(raw)
    samples = 0
    while at + 4 <= len(raw) and raw[at] == 0xFF and raw[at + 1] & 0xE6 == 0xE2:  # layer III
        version, bits = raw[at + 1] >> 3 & 3, raw[at + 2]
        if version == 1 or bits >> 4 in (0, 15) or bits >> 2 & 3 == 3:
            break
        first = version == 3
        length = (144_000 if first else 72_000) * _KBITS[first][bits >> 4] // _RATES[version][bits >> 2 & 3]
        samples += 1152 if first else 576
        at += length + (bits >> 1 & 1)
    return samples


def _tag_bytes(raw: bytes) -> int:
    if raw[:3] != b"ID3" or len(raw) < 10:
        return 0
    return 10 + sum((byte & 0x7F) << shift for byte, shift in zip(raw[6:10], (21, 14, 7, 0), strict=True))
