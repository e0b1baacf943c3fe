"""Reading of text: numbers, dates, units and abbreviations in words, a lexicon, pause tags and SSML."""
