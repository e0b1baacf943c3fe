"""GPU report: tests marked gpu and benchmarks on a GPU host, their figures beside their targets, as JSON and a page."""
