"""The voice that is always there: espeak-ng, a formant synthesizer, as an engine of the speech room."""
