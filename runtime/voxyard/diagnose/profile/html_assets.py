"""The style sheet and the script of the profile's page. Colours stand once, as pairs for light and dark."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --paper: light-dark(#fbfaf6, #15171a); --raised: light-dark(#ffffff, #1d2024); --sunken: light-dark(#f1efe8, #111316);
  --ink: light-dark(#1e1c19, #e9e6df); --soft: light-dark(#5d5850, #a9a59c); --line: light-dark(#d9d5ca, #363a40);
  --accent: light-dark(#14555c, #86cdd2); --on-accent: light-dark(#ffffff, #0d2326);
  --load: light-dark(#c07a1e, #dba04f); --features: light-dark(#2b8a86, #5fbab5);
  --transfer: light-dark(#8a5aa6, #bb93d6); --train: light-dark(#33609f, #7fa8e0);
  --wait: light-dark(#b3261e, #ff8b7f); --wait-back: light-dark(#f8ddd8, #46201d);
  --good: light-dark(#2d6a3e, #86cf9a);
  --serif: "Iowan Old Style", "Palatino Linotype", Palatino, "TeX Gyre Pagella", "Source Serif 4", Georgia, serif;
  --sans: system-ui, -apple-system, "Segoe UI", "Noto Sans", "Liberation Sans", sans-serif;
  --mono: ui-monospace, "SF Mono", "Cascadia Mono", "Liberation Mono", monospace;
}
*, *::before, *::after { box-sizing: border-box; }
html { background: var(--paper); color: var(--ink); font: 1rem/1.55 var(--sans); text-size-adjust: 100%; }
body { margin: 0 auto; max-width: 64rem; padding: 0 clamp(1rem, 4vw, 2.5rem) 4rem; }
h1, h2, h3 { font-family: var(--serif); font-weight: 600; line-height: 1.2; text-wrap: balance; }
h2 { font-size: 1.3rem; margin: 2.8rem 0 0.3rem; }
h3 { font-size: 1.08rem; margin: 0; }
p { margin: 0.4rem 0; }
.soft { color: var(--soft); font-size: 0.93rem; max-width: 48rem; }
.masthead { display: flex; flex-wrap: wrap; gap: 0.2rem 1.4rem; align-items: baseline; padding: 1.4rem 0 1rem; }
.wordmark { font: 600 1.15rem/1 var(--serif); margin-right: auto; }
.verdict { padding: clamp(1.2rem, 3vw, 2rem); background: var(--raised); border: 1px solid var(--line);
  border-left: 8px solid var(--of, var(--good)); border-radius: 0.6rem; }
.verdict.load { --of: var(--load); } .verdict.features { --of: var(--features); }
.verdict.transfer { --of: var(--transfer); } .verdict.train { --of: var(--train); }
.verdict h1 { font-size: clamp(1.6rem, 4.4vw, 2.5rem); letter-spacing: -0.01em; margin: 0 0 0.5rem; }
.verdict .said { font-size: 1.08rem; max-width: 46rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: 1rem 1.5rem;
  margin: 1.4rem 0 0; }
.figures div { border-top: 1px solid var(--line); padding-top: 0.5rem; }
.figures dt { color: var(--soft); font-size: 0.86rem; }
.figures dd { margin: 0; font: 600 1.55rem/1.2 var(--serif); font-variant-numeric: tabular-nums; }
.figures dd small { font: 400 0.86rem var(--sans); color: var(--soft); }
.marks { margin: 1.2rem 0 0; padding: 0; list-style: none; display: grid; gap: 0.35rem; font-size: 0.95rem; }
.marks li { display: grid; grid-template-columns: 6.8rem 1fr; gap: 0.8rem; align-items: baseline; }
.marks b { font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap; }
figure { margin: 0.8rem 0 0; padding: 0.9rem 1rem; background: var(--raised); border: 1px solid var(--line);
  border-radius: 0.6rem; }
figcaption { color: var(--soft); font-size: 0.9rem; margin-top: 0.5rem; }
.wide { overflow-x: auto; }
.wide svg { min-width: 40rem; }
svg { display: block; width: 100%; height: auto; font: 13px var(--sans); }
svg text { fill: var(--ink); }
svg .tick { fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
svg .lane { font-weight: 600; }
svg .value { font-weight: 600; font-variant-numeric: tabular-nums; }
svg .halo { paint-order: stroke; stroke: var(--raised); stroke-width: 5px; stroke-linejoin: round; }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .axis { stroke: var(--soft); stroke-width: 1; }
svg .mark { stroke: var(--ink); stroke-width: 1; stroke-dasharray: 3 3; }
svg .ground { fill: var(--sunken); }
svg line.now { stroke: var(--ink); stroke-width: 2; }
svg text.now { font-weight: 600; }
svg .load { fill: var(--load); } svg .features { fill: var(--features); } svg .transfer { fill: var(--transfer); }
svg .train { fill: var(--train); } svg .traced { fill: var(--soft); }
svg .wait { fill: var(--wait-back); stroke: var(--wait); stroke-width: 1; }
svg rect.features { stroke: var(--raised); stroke-width: 0.5; } svg rect.train { stroke: var(--raised);
  stroke-width: 0.5; }
.legend { display: flex; flex-wrap: wrap; gap: 0.2rem 1.3rem; margin: 0 0 0.5rem; padding: 0; list-style: none;
  font-size: 0.9rem; }
.legend li::before { content: ""; display: inline-block; width: 0.8rem; height: 0.8rem; margin-right: 0.45rem;
  vertical-align: -0.06rem; border-radius: 2px; background: var(--of); }
.legend .load { --of: var(--load); } .legend .features { --of: var(--features); }
  .legend .transfer { --of: var(--transfer); }
.legend .train { --of: var(--train); } .legend .wait { --of: var(--wait-back); }
.legend .wait::before { outline: 1px solid var(--wait); outline-offset: -1px; }
.hists { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)); gap: 0.9rem;
  margin-top: 0.8rem; }
.hists figure { margin: 0; }
.hists header { display: flex; flex-wrap: wrap; gap: 0 0.8rem; align-items: baseline; margin-bottom: 0.4rem; }
.hists header span { margin-left: auto; font-variant-numeric: tabular-nums; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.95rem; }
th, td { text-align: right; padding: 0.35rem 0.6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
td.words { white-space: normal; text-align: left; }
thead th { color: var(--soft); font-weight: 500; font-size: 0.86rem; }
tbody tr:last-child > * { border-bottom: 0; }
.advice { list-style: none; margin: 0.9rem 0 0; padding: 0; display: grid; gap: 0.9rem; }
.advice > li { display: grid; grid-template-columns: 8.6rem 1fr; background: var(--raised);
  border: 1px solid var(--line);
  border-radius: 0.6rem; overflow: hidden; }
.advice .gain { padding: 1.1rem 1rem; background: var(--sunken); text-align: center; }
.advice .gain b { display: block; font: 600 1.9rem/1.1 var(--serif); font-variant-numeric: tabular-nums; }
.advice .gain span { color: var(--soft); font-size: 0.84rem; }
.advice .what { padding: 1.1rem 1.2rem; min-width: 0; }
.command { position: relative; margin-top: 0.7rem; }
pre { margin: 0; padding: 0.8rem 6.2rem 0.8rem 0.9rem; background: var(--sunken); border-radius: 0.4rem;
  font: 0.86rem/1.6 var(--mono);
  white-space: pre-wrap; overflow-wrap: anywhere; }
pre span { display: inline-block; max-width: 100%; }
button { position: absolute; top: 0.45rem; right: 0.45rem; padding: 0.3rem 0.8rem;
  font: 600 0.84rem var(--sans); color: var(--on-accent);
  background: var(--accent); border: 1px solid var(--accent); border-radius: 0.35rem; cursor: pointer; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
footer { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--line); }
footer pre { padding-right: 0.9rem; }
@media (max-width: 40rem) {
  .advice > li { grid-template-columns: 1fr; } .advice .gain { padding: 0.6rem 1.2rem; text-align: left; }
  .advice .gain b { display: inline; margin-right: 0.6rem; } .marks li { grid-template-columns: 1fr; gap: 0; }
  .marks b { text-align: left; }
}
@media print { pre span { display: inline-block; max-width: 100%; }
button { display: none; } figure, .advice > li, .verdict { break-inside: avoid; } }
"""

SCRIPT = """
for (const button of document.querySelectorAll('button[data-copy]')) {
  button.hidden = false;
  button.addEventListener('click', async () => {
    const text = button.parentElement.querySelector('pre').textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = 'Copied';
    } catch {
      getSelection().selectAllChildren(button.parentElement.querySelector('pre'));
      button.textContent = 'Selected';
    }
    setTimeout(() => { button.textContent = 'Copy'; }, 2000);
  });
}
"""
