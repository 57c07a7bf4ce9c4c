"""Options of a Faiss index that several commands have: one place for their bounds and their defaults."""

from typing import Annotated

from al_ray.core.config.bounds import Between

Neighbours = Annotated[int, Between(1, 1_000_000)]
NEIGHBOURS = 100
"""Right texts with which each left text is compared, in a run (the paper: on WikiQA) and in a match."""
Probes = Annotated[int, Between(1, 1_000_000)]
"""nprobe: cells of an IVF index that a query searches."""
PROBES = 10
"""Of a run and of a match: the number of the authors' program, so that a run searches as the paper's did."""
ServedProbes = Annotated[int, Between(1, 65_536)]
SERVED_PROBES = 32
"""Of serve: its index has small cells of about sqrt(n) / 4 texts, so that 32 cells hold about 8 sqrt(n)."""
ChosenProbes = Annotated[int | None, Between(1, 1_000_000)]
"""Of paraphrase index, whose paper says no number: without one, the fewest cells that reach the least recall are taken.
"""
