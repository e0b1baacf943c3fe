"""Profile of a training run: measurements, cost model, advice, reports."""
