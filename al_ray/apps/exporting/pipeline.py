"""From a model to a folder that other programs load: with its scorer, a record and a model card."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from al_ray.apps.exporting.card import make_card
from al_ray.apps.exporting.check import describe_check, measure_differences, read_check_texts, read_lines
from al_ray.apps.exporting.facts import Facts, folder_of_model, read_facts
from al_ray.apps.exporting.folder import CARD, GRAPH, INT8, RECORD, is_whole, local_folder, read_export
from al_ray.apps.exporting.forest_graph import describe_forest_check, write_matcher
from al_ray.apps.exporting.graph import INPUTS, OUTPUT, write_graph
from al_ray.apps.exporting.int8 import describe_cost, dev_split, measure_cost, quantize
from al_ray.apps.exporting.options import FOLDER, ExportOptions
from al_ray.apps.exporting.session import OnnxEncoder, require_packages, write_tokenizer
from al_ray.apps.matching.model import MatchingModel
from al_ray.core.errors import BadOption, WrongFolder
from al_ray.core.naming import command
from al_ray.core.progress import OnProgress
from al_ray.core.task import Split
from al_ray.encoders.encoder import check_weights_digest
from al_ray.encoders.transformer import Encoder
from al_ray.storage.atomic_folder import whole
from al_ray.storage.download import fetched
from al_ray.storage.files import write_root
from al_ray.storage.uri import StoragePath
from al_ray.training.saved_model import SCORER, input_digest
from al_ray.training.untrained_model import is_untrained

FORMAT_VERSION = 1  # Of export.json and of the files beside it.
ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime", "tokenizers", "torch", "transformers")
FOLDER_PACKAGES = ("sentence-transformers", "torch", "transformers")


@dataclass(frozen=True)
class ExportResult:
    """An export: export.json as a value, and whether it was there before. Both formats have it."""

    path: Path
    record: Mapping[str, Any]
    unchanged: bool = False

    @property
    def summary(self) -> Iterator[str]:
        """Yield the lines that the command prints."""
        record = self.record
        yield f"model: {record['model']}, digest {record['digest'][:12]}, as {record['format']}"
        # Exports of earlier versions, and of copied models, have none.
        if record.get("choice") is not None:
            yield f"chosen: {record['choice']['words']}"
        if "check" in record:
            yield f"largest difference from torch on {describe_check(record['check'])}"
        if "check" in record.get("matcher", {}):
            check = describe_forest_check(record["matcher"]["check"])
            yield f"largest difference of p of the matcher's graph on {check}"
        if "int8" in record:
            cost = record["int8"]
            yield f"AP on dev, {describe_cost(cost)}; {cost['bytes'] / record['bytes']:.0%} of the size"
        if self.unchanged:
            yield f"{self.path} already holds this export"


def export(options: ExportOptions, model: MatchingModel, out: StoragePath, watch: OnProgress) -> ExportResult:
    """Export a model into a folder, atomically; the same export again changes nothing.

    An export of the same model and format with other options, thresholds or versions is replaced.
    """
    if options.format != FOLDER:
        require_packages()
    folder, facts = local_folder(out), read_facts(model)
    earlier = read_export(folder, facts.digest, options.format)
    made_from = export_digest(options, facts)
    if earlier is not None and earlier["made_from"] == made_from and is_whole(folder, earlier):
        return ExportResult(folder, earlier, unchanged=True)
    matched = model.model.matcher is not None
    source = None if is_untrained(model.model) else fetched(folder_of_model(model)).resolve()
    if options.int8 and matched:
        raise BadOption(
            f"`int8` measures the AP of the cosine, and in {model.path} a matcher ranks the candidates; leave it out"
        )
    if source is not None and source in (folder.resolve(), *folder.resolve().parents):
        raise WrongFolder(f"{folder} lies in the model folder {source}; choose another `out`")
    split = dev_split(model) if options.int8 else None
    encoder = _load(model)
    record = _about(options, model, facts, encoder) | {"made_from": made_from}
    command = _command(options, model, out)
    with whole(folder) as aside:
        if options.format != FOLDER:
            record |= _write_onnx(options, model, encoder, split, aside, watch)
        elif matched or source is None:
            encoder.save(aside)
        else:
            shutil.copytree(source, aside, dirs_exist_ok=True)
        write_root(aside / SCORER, {**facts.scorer, "choice": facts.choice})
        if matched:
            record["matcher"] = write_matcher(model, aside, options.format != FOLDER)
        make_card(facts, record, command).save(aside / CARD)
        record["files"] = sorted({*(path.name for path in aside.iterdir()), RECORD})
        write_root(aside / RECORD, record)
    return ExportResult(folder, record)


def _load(model: MatchingModel) -> Encoder:
    """Load the encoder of a model, which computes in fp32; BadFile if its weights are not those of the run."""
    saved = model.model.matcher is None and model.model.path
    encoder = Encoder.saved(model.model.path, model.config.encoding) if saved else Encoder.base(model.config.encoding)
    check_weights_digest(model.model, encoder.digest(), model.config.encoder)
    encoder.config = replace(encoder.config, arithmetic="fp32")
    return encoder


def export_digest(options: ExportOptions, facts: Facts) -> str:
    """Return the digest of all that decides an export."""
    packages = FOLDER_PACKAGES if options.format == FOLDER else ONNX_PACKAGES
    texts = None if options.texts is None else read_lines(options.texts)
    given, versions = {**asdict(options), "texts": texts}, {name: version(name) for name in packages}
    return input_digest([FORMAT_VERSION, given, facts.as_dict(), versions])


def _about(options: ExportOptions, model: MatchingModel, facts: Facts, encoder: Encoder) -> dict[str, Any]:
    """Return what export.json says of both formats."""
    packages = FOLDER_PACKAGES if options.format == FOLDER else ONNX_PACKAGES
    return {
        "format": options.format,
        "version": FORMAT_VERSION,
        "model": str(model.path),
        "round": model.round,
        "choice": facts.choice,
        "digest": facts.digest,
        "dimension": encoder.dimension,
        "max_length": encoder.config.max_length,
        "pooling": encoder.modules.description,
        "prompts": {"left": encoder.prompts.left, "right": encoder.prompts.right},
        "licence": options.licence,
        "versions": {name: version(name) for name in packages},
    }


def _write_onnx(
    options: ExportOptions, model: MatchingModel, encoder: Encoder, split: Split | None, aside: Path, watch: OnProgress
) -> dict[str, Any]:
    """Write graphs and tokenizer, and check them; return what export.json says of them."""
    texts, threads = read_check_texts(options.texts, model, encoder), encoder.config.threads
    watch("export the graph", 0, 1)
    write_tokenizer(encoder, aside)
    opset = write_graph(encoder, aside / GRAPH)
    watch("export the graph", 1, 1)
    exported = OnnxEncoder(aside / GRAPH, encoder.prompts, threads)
    differences = measure_differences(encoder, exported, texts, watch)
    differences.check(str(model.path))
    about: dict[str, Any] = {
        "graph": GRAPH,
        "inputs": list(INPUTS),
        "output": OUTPUT,
        "opset": opset,
        "bytes": _bytes(aside, GRAPH),
        "check": differences.record,
    }
    if split is not None:
        watch("quantise the graph", 0, 1)
        quantize(aside / GRAPH, aside / INT8)
        graphs = {"fp32": exported, "int8": OnnxEncoder(aside / INT8, encoder.prompts, threads)}
        about["int8"] = {"graph": INT8, "bytes": _bytes(aside, INT8)} | measure_cost(model, split, graphs, watch)
    return about


def _bytes(folder: Path, graph: str) -> int:
    """Return the size of a graph with its weights."""
    return sum(path.stat().st_size for path in folder.glob(f"{graph}*"))


def _command(options: ExportOptions, model: MatchingModel, out: StoragePath) -> str:
    """Return the command that makes this export."""
    # With its round: the same model, also when the run has more rounds.
    words = command(
        "export", model=model.path, format=options.format, round=model.round, int8=options.int8, texts=options.texts,
        licence=options.licence, out=out,
    )  # fmt: skip
    return words.strip("`")
