"""Write and read a trained model's folder: weights and scorer.json."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import CandidatesConfig
from al_ray.core.config.serialization import as_dict, from_dict
from al_ray.core.errors import BadFile, BadOption, WriteErrors
from al_ray.core.labels import ENCODER, MATCHER, REFERENCE, Model, SavedMatcher, SavedReference
from al_ray.core.scorer import Scorer
from al_ray.encoders.prompts import DOCUMENT, QUERY, StoredPrompts, read_prompts
from al_ray.encoders.vocabulary import FILE as VOCABULARY
from al_ray.storage.files import check_fields, read_json, stamped, trained_encoder, write_root
from al_ray.storage.uri import StoragePath, Uri, put_folder

SCORER = "scorer.json"


class SavedWeights(Protocol):
    """A model that can be saved: a bi-encoder or a cross-encoder."""

    def digest(self) -> str:
        """Return the digest of everything that decides its results."""
        ...

    def save(self, folder: Path) -> None:
        """Write the model into an existing, empty folder."""
        ...


def input_digest(values: Sequence[Any], *arrays: np.ndarray) -> str:
    """Return the SHA-256 digest of values, each as JSON, and of the bytes of arrays."""
    return bytes_digest("".join(map(json.dumps, values)).encode(), *arrays)


def bytes_digest(first: bytes, *arrays: np.ndarray) -> str:
    """Return the SHA-256 digest of bytes and of the bytes of arrays."""
    content = hashlib.sha256(first)
    for array in arrays:
        content.update(np.ascontiguousarray(array).data)
    return content.hexdigest()


def write_model(encoder: SavedWeights, scorer: Scorer, folder: StoragePath, made_from: str) -> Model:
    """Write weights and scorer.json atomically: into a new folder that is renamed, or as objects, scorer.json last."""
    model = Model(str(folder), encoder.digest(), scorer)
    content = stamped({**scorer_fields(scorer), "digest": model.digest, "made_from": made_from})
    with WriteErrors(folder):
        if isinstance(folder, Path):
            folder.parent.mkdir(parents=True, exist_ok=True)
        near = folder.parent if isinstance(folder, Path) else None
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}.{os.getpid()}-", dir=near) as parent:
            aside = Path(parent) / folder.name
            aside.mkdir()
            encoder.save(aside)
            (aside / SCORER).write_text(json.dumps(content, indent=2) + "\n")
            if isinstance(folder, Uri):
                put_folder(aside, folder, SCORER)
            else:
                if folder.exists():
                    shutil.rmtree(folder)
                aside.rename(folder)
    return model


def write_scorer(folder: StoragePath, model: Model, scorer: Scorer) -> Model:
    """Replace the scorer of a model that was written into a folder, and return it with this one."""
    path = folder / SCORER
    write_root(path, {**read_json(path, ["digest", "made_from"]), **scorer_fields(scorer)})
    return replace(model, scorer=scorer)


def write_matched(folder: StoragePath, model: Model, encoding: EncoderConfig, candidates: CandidatesConfig) -> None:
    """Write scorer.json of a model whose folder has a matcher and no weights: a copy of the folder can be used by it.

    encoding, candidates: by which the encoder and the candidates of pairs are found again.
    """
    assert model.scorer is not None
    assert model.matcher is not None
    assert model.matcher.reference is not None
    digests = {"digest": model.digest, "encoder": model.matcher.encoder, "reference": model.matcher.reference.digest}
    options: dict[str, Any] = {"encoding": as_dict(encoding), "candidates": as_dict(candidates)}
    if model.path:
        options["encoder_round"] = model.encoder_round
    write_root(folder / SCORER, {**scorer_fields(model.scorer), **digests, **options})


def scorer_fields(scorer: Scorer) -> dict[str, Any]:
    """Return what scorer.json has of a scorer."""
    content = {**scorer.as_dict(), "boundary": scorer.boundary if scorer.weight else None}
    # As earlier versions wrote it, where they knew such a scorer.
    return {name: value for name, value in content.items() if value or name != "both_sides"}


def read_model(folder: StoragePath, made_from: str | None = None) -> Model | None:
    """Read a model that `write_model` wrote; None if there is none, or if its `made_from` is another."""
    if not (folder / SCORER).exists():
        return None
    content = read_json(folder / SCORER, (), f"restore it, or move {folder} away")
    if isinstance(content, dict) and content.get("matcher"):
        return _read_matched(folder)
    try:
        weight, bias, loss = (float(content[name]) for name in ("weight", "bias", "loss"))
        # Earlier versions knew no neighbourhood, and then none of both sides.
        number, both = float(content.get("neighbourhood", 0.0)), bool(content.get("both_sides", False))
        scorer = Scorer(weight, bias, loss, str(content["outcome"]), number, both_sides=both)
        model, source = Model(str(folder), str(content["digest"]), scorer), content["made_from"]
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise BadFile(f"{folder / SCORER} cannot be read ({error!r}); restore it, or move {folder} away") from error
    return model if made_from is None or source == made_from else None


def _read_matched(folder: StoragePath) -> Model:
    """Read a model with a matcher, in its run or copied; BadOption for one of an earlier al_ray, BadFile if damaged."""
    fix = f"restore it, or move {folder} away"
    content = read_json(folder / SCORER, dict.fromkeys(("digest", "encoder"), str), fix)
    if "reference" not in content:
        raise BadOption(
            f"{folder} has a matcher of an earlier al_ray, which works in its run alone; give its run "
            "(`al_ray.match(..., model=RUN)`), or train it again (`al_ray.run`)"
        )
    fitted = dict.fromkeys(("weight", "bias", "loss"), (int, float))
    check_fields(folder / SCORER, content, {**fitted, "outcome": str, "reference": str}, fix)
    weight, bias, loss = (float(content[name]) for name in fitted)
    scorer = Scorer(weight, bias, loss, content["outcome"], matcher=True)
    path = folder.resolve()
    reference = SavedReference(str(path / REFERENCE), content["reference"])
    matcher = SavedMatcher(str(path / MATCHER), content["encoder"], reference)
    encoder, copied = trained_encoder(folder, content, folder / SCORER), folder / ENCODER
    if encoder is None:
        return Model("", content["digest"], scorer, matcher)
    for place in (copied, encoder):
        if (place / SCORER).exists():
            return Model(str(place.resolve()), content["digest"], scorer, matcher)
    raise BadFile(f"{folder} has no encoder: copy {encoder.parent.name}/{ENCODER} of its run to {copied}")


def saved_matching(folder: StoragePath) -> tuple[EncoderConfig, CandidatesConfig]:
    """Return the options by which the model of a folder with a matcher encodes texts and finds candidates."""
    fix = f"restore it, or move {folder} away"
    content = read_json(folder / SCORER, {"encoding": dict, "candidates": dict}, fix)
    try:
        return from_dict(EncoderConfig, content["encoding"]), from_dict(CandidatesConfig, content["candidates"])
    except BadOption as error:
        raise BadFile(f"{folder / SCORER}: {error}; {fix}") from error


def raise_has_matcher(path: StoragePath) -> NoReturn:
    """Raise BadOption for a model with a matcher, where only encoders can be used."""
    raise BadOption(
        f"{path} has a matcher (`RunConfig.matcher='on'`), which load_model cannot use; match with it "
        "(`al_ray.match(..., model=RUN)` or `al-ray serve ... --model RUN`), score records by al_ray.load_matcher, or "
        "give a run without one (docs/matcher.md)"
    )


def saved_encoding(folder: StoragePath) -> EncoderConfig:
    """Return the options of a model folder that lies in no run, as far as it records them: length and prompts."""
    path = folder / "sentence_bert_config.json"
    # A transformer's tokenizer may have a vocabulary of this name, too.
    if (folder / VOCABULARY).exists() and not path.exists():
        return EncoderConfig("cnn")
    limit = read_json(path, ["max_seq_length"])["max_seq_length"]
    if type(limit) is not int:
        raise BadFile(f"{path} gives {limit!r} as the longest text; restore it")
    stored = read_prompts(str(folder)) if isinstance(folder, Path) else StoredPrompts()
    left, right = stored.of_side(QUERY), stored.of_side(DOCUMENT)
    # By name: a text of one word would be taken for a name.
    prompt_left, prompt_right = "query" if left or right else None, "document" if left != right else None
    try:
        return EncoderConfig(str(folder), max_length=limit, prompt_left=prompt_left, prompt_right=prompt_right)
    except BadOption as error:
        raise BadFile(f"{path}: {error} (restore it)") from error
