"""Train with half of a card's memory beside another process that does the same, and print a line of JSON."""

import json
import sys
import time

import torch

from al_ray.core.config.sections import TrainingConfig
from al_ray.encoders.hardware import settle_arithmetic, settle_training
from al_ray.training.bi_encoder import train
from benchmarks.gpu_parts.setup import BATCH, MINILM, TINY, Settings, random_labels, random_tokens


def main() -> None:
    """Train, and on a GPU see that more than half of the memory is refused."""
    settings = Settings(sys.argv[1], int(sys.argv[2]))
    torch.set_num_threads(settings.threads)
    settle_arithmetic()
    settle_training(settings.device)
    figures = dict[str, object]()
    if settings.cuda:
        torch.cuda.set_per_process_memory_fraction(0.5, settings.device)
        figures["0.4 of the memory"] = allocated(settings, 0.4)
        figures["0.6 of the memory"] = allocated(settings, 0.6)
        torch.cuda.empty_cache()
    shape = settings.size(MINILM, TINY)
    encoder, tokens = shape.load(settings), random_tokens(shape, 64, 4, 60)
    started, labelled = time.perf_counter(), random_labels(64, settings.size(30, 2))
    config = TrainingConfig(epochs=1, batch=BATCH)
    steps = list(train(encoder, (tokens, tokens), labelled, config, [0, 0, 0]))
    figures["seconds of a step"] = (time.perf_counter() - started) / len(steps)
    print(json.dumps({**figures, "weights": encoder.digest()[:16]}))


def allocated(settings: Settings, share: float) -> str:
    """Allocate a share of the card's memory; return how that ended."""
    size = int(share * torch.cuda.get_device_properties(settings.device).total_memory)
    try:
        torch.empty(size, dtype=torch.uint8, device=settings.device)
    except torch.OutOfMemoryError:
        return "refused"
    return "allocated"


if __name__ == "__main__":
    main()
