"""OpenAI's client against a speech service: a text in, a WAV file out."""

from __future__ import annotations

import argparse
from pathlib import Path

from openai import OpenAI

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--base-url", required=True, help="such as http://127.0.0.1:8080/v1")
parser.add_argument("--text", required=True)
parser.add_argument("--voice", default="alloy")
parser.add_argument("--out", type=Path, required=True)
asked = parser.parse_args()

client = OpenAI(base_url=asked.base_url, api_key="none")
speech = client.audio.speech.create(model="tts-1", voice=asked.voice, input=asked.text, response_format="wav")
speech.write_to_file(asked.out)
print(f"{asked.out}: {len(speech.content)} bytes")
