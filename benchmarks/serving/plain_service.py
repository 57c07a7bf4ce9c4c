"""The baseline: FastAPI, sentence-transformers and Faiss, as one writes it without al_ray.

python -m benchmarks.serving.plain_service MODEL TABLE PORT THREADS
"""

import csv
import sys
import threading
from pathlib import Path
from typing import Any

import faiss
import torch
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer


class Body(BaseModel):
    """Texts to match with the known ones."""

    texts: list[str]
    limit: int = 10


class Match(BaseModel):
    """A known text that matches."""

    id: str
    score: float
    probability: float | None = None
    cluster: int | None = None


class Answer(BaseModel):
    """Of each text its matches, the best first."""

    model: str
    sequence: int
    results: list[list[Match]]


def make_service(model: str, table: Path, threads: int) -> FastAPI:
    """Return the service of a folder of sentence-transformers and a CSV table with the columns key and words."""
    torch.set_num_threads(threads)
    faiss.omp_set_num_threads(threads)
    encoder = SentenceTransformer(model, device="cpu")
    with table.open(newline="", encoding="utf-8") as file:
        known = list(csv.DictReader(file))
    ids = [one["key"] for one in known]
    vectors = encode(encoder, [one["words"] for one in known])
    index: Any = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    # The model's threads are busy with one request; requests take turns.
    service, lock = FastAPI(), threading.Lock()

    @service.get("/ready")
    def ready() -> dict[str, str]:
        return {"status": "ready"}

    # Not async: FastAPI runs it on a thread of its pool.
    @service.post("/match")
    def match(body: Body) -> Answer:
        with lock:
            scores, rows = index.search(encode(encoder, body.texts), min(body.limit, len(ids)))
        found = zip(scores.tolist(), rows.tolist(), strict=True)
        results = [
            [Match(id=ids[row], score=score) for score, row in zip(*each, strict=True)] for each in found
        ]  # fmt: skip
        return Answer(model=model, sequence=0, results=results)

    _ = ready, match
    return service


def encode(encoder: Any, texts: list[str]) -> Any:
    """Return unit vectors (n, d)."""
    return encoder.encode(texts, normalize_embeddings=True, batch_size=64, show_progress_bar=False)


if __name__ == "__main__":
    model, table, port, threads = sys.argv[1:]
    uvicorn.run(make_service(model, Path(table), int(threads)), port=int(port), log_level="warning")
