"""Style sheet of the demo's page: light and dark, by the system's setting."""

STYLE = """
:root { color-scheme: light dark; --back: #f6f5f1; --raised: #ffffff; --sunken: #ecebe5; --ink: #1d2126;
  --soft: #565d66; --line: #d9d7cf; --accent: #0b5c7a; --real: #1c6b3c; --scripted: #8a4b00; --random: #7a2e8e;
  --bad: #a82315; --c0: #0b6e99; --c1: #c2570c; --mono: ui-monospace, monospace; }
@media (prefers-color-scheme: dark) { :root { --back: #15181c; --raised: #1d2126; --sunken: #262b31; --ink: #e8eaed;
  --soft: #a3abb5; --line: #363c44; --accent: #7cc4e3; --real: #7fd39d; --scripted: #f0b060; --random: #dba0ea;
  --bad: #ff9384; --c0: #6cc0e8; --c1: #f59e5b; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 66rem; margin: 0 auto; padding: 1.5rem clamp(1rem, 4vw, 2.5rem) 4rem; }
h1 { font-size: clamp(1.6rem, 4vw, 2.3rem); margin: 0.5rem 0; letter-spacing: -0.01em; }
h2 { font-size: 1.4rem; margin: 3rem 0 0.6rem; padding-top: 1rem; border-top: 2px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.4rem 0 0.4rem; }
p { max-width: 48rem; margin: 0.5rem 0; } .small { color: var(--soft); font-size: 0.9rem; }
a { color: var(--accent); } :focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.badge { display: inline-block; font: 600 0.78rem/1.5 system-ui, sans-serif; padding: 0 0.55rem; border: 1.5px solid;
  border-radius: 1rem; vertical-align: 0.12em; white-space: nowrap; }
.real { color: var(--real); } .scripted { color: var(--scripted); } .random { color: var(--random); }
.synthetic { color: var(--scripted); }
.key { display: grid; grid-template-columns: max-content 1fr; gap: 0.35rem 1rem; margin: 1rem 0; }
.key dd { margin: 0; }
.note { border: 1px solid var(--line); border-left: 6px solid var(--scripted); background: var(--raised);
  border-radius: 0.4rem; padding: 0.7rem 1rem; }
.note.failed { border-left-color: var(--bad); margin-bottom: 1rem; }
.note ul { margin: 0.2rem 0 0; padding-left: 1.2rem; }
.sounds { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(21rem, 100%), 1fr)); gap: 1rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: 1rem; }
figure { margin: 0; padding: 0.9rem 1rem; background: var(--raised); border: 1px solid var(--line);
  border-radius: 0.5rem; min-width: 0; }
figure h3 { margin-top: 0; } figcaption { color: var(--soft); font-size: 0.9rem; }
blockquote { margin: 0 0 0.6rem; font-size: 1.05rem; }
.sound { display: flex; flex-direction: column; } .sound blockquote { flex: 1; }
.sound img { display: block; width: 100%; height: 8rem; border-radius: 0.25rem; }
audio { width: 100%; margin: 0.6rem 0 0.3rem; height: 2.5rem; }
svg { display: block; width: 100%; height: auto; font: 13px system-ui, sans-serif; }
svg .tick { fill: var(--soft); font-size: 12px; } svg .grid { stroke: var(--line); }
svg .curve { fill: none; stroke: var(--of); stroke-width: 2; } svg .dot { fill: var(--of); }
.c0 { --of: var(--c0); } .c1 { --of: var(--c1); }
.legend { list-style: none; margin: 0.3rem 0 0; padding: 0; display: flex; flex-wrap: wrap; gap: 0 1.4rem;
  font-size: 0.9rem; }
.legend li[class]::before { content: ""; display: inline-block; width: 0.9rem; height: 0.22rem; margin-right: 0.45rem;
  vertical-align: 0.22rem; background: var(--of); }
.pairs { display: grid; grid-template-columns: minmax(8rem, max-content) 1fr; gap: 0.2rem 1.4rem; margin: 1rem 0; }
.pairs dt { color: var(--soft); } .pairs dd { margin: 0; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.92rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: 0.35rem 0.8rem 0.35rem 0;
  border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 500; white-space: nowrap; }
.commands td:nth-child(2) { white-space: nowrap; }
.firing { color: var(--bad); } .pending { color: var(--scripted); }
pre { margin: 0.2rem 0 0; padding: 0.5rem 0.7rem; background: var(--sunken); border-radius: 0.3rem;
  font: 0.82rem/1.5 var(--mono); white-space: pre-wrap; overflow-wrap: anywhere; }
code { font-family: var(--mono); font-size: 0.9em; }
details { margin: 0.8rem 0; } summary { cursor: pointer; color: var(--accent); }
iframe { width: 100%; height: 44rem; border: 1px solid var(--line); border-radius: 0.4rem; margin-top: 0.5rem;
  background: var(--raised); }
.none { color: var(--soft); }
@media (max-width: 40rem) { .key, .pairs { grid-template-columns: 1fr; gap: 0; } .pairs dd { margin-bottom: 0.4rem; } }
"""
