"""The reference of a matcher: its numbers do not change with the other texts, and its file is read with checks."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load, save

from al_ray.cluster.candidates.records import TaskRecords, write_grams
from al_ray.cluster.candidates.reference import Reference, Sides
from al_ray.cluster.candidates.reference_file import KEY, read_reference, write_reference
from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.config.sections import SearchConfig
from al_ray.core.errors import BadFile
from al_ray.core.labels import SavedReference
from al_ray.core.task import Corpus, Fields, Split, Task
from al_ray.datasets.task_folder import write_task
from al_ray.search.shard_spec import ShardSpec

NAMES = ("sony radio xk20", "sony radio xk21", "philips lamp", "radio", "lamp of brass", "bosch drill gs7")
PRICES = ("10", "12.5", "", "7", "80", "99")
ALL, HALF = (0, 1, 2, 3, 4, 5), (0, 1)


def corpus_of(rows: tuple[int, ...], types: tuple[str, ...] = ("name", "number")) -> Corpus:
    cells = [(NAMES[row], PRICES[row]) for row in rows]
    lengths = np.array([[len(cell) for cell in row] for row in cells], dtype=np.int64)
    texts = tuple(" ".join(cell for cell in row if cell) for row in cells)
    fields = Fields(("name", "price"), lengths, types)  # pyright: ignore[reportArgumentType]
    return Corpus(tuple(map(str, rows)), texts, fields)


def spec_of(folder: Path, left: tuple[int, ...], right: tuple[int, ...], **types: tuple[str, ...]) -> ShardSpec:
    """Write a task of two sides, and the 3-grams of its texts."""
    sides = corpus_of(left, **types), corpus_of(right, **types)
    task = Task("t", False, *sides, {}, "")
    space = task.space(np.arange(len(left)), np.arange(len(right)))
    nothing = np.empty((0, 2), dtype=np.int64)
    write_task(replace(task, splits={"train": Split("train", space, nothing, nothing)}), folder / "task", {})
    spec = ShardSpec(
        str(folder / "pool"), EncoderConfig("random-bert", threads=1), SearchConfig(), 0, 1, task=str(folder / "task")
    )
    write_grams(spec)
    return spec


@pytest.fixture
def trained(tmp_path) -> TaskRecords:
    return TaskRecords(spec_of(tmp_path / "all", ALL, ALL[:5]))


def test_comparisons_of_two_records_are_the_same_whatever_others_there_are(trained, tmp_path):
    pairs = np.array([[left, right] for left in HALF for right in HALF])
    expected = trained.compare(pairs), trained.trigrams(pairs)
    half = spec_of(tmp_path / "half", HALF, HALF)
    places = np.array([[left, right] for left in range(2) for right in range(2)])
    found = TaskRecords(half, trained.reference)
    assert found.names == trained.names
    assert found.compare(places).tobytes() == expected[0].tobytes()
    assert found.trigrams(places).tobytes() == expected[1].tobytes()
    # Counted anew they are others.
    assert TaskRecords(half).compare(places).tobytes() != expected[0].tobytes()
    assert (TaskRecords(half).trigrams(places) != expected[1]).any()


def test_new_texts_are_compared_by_what_no_text_of_the_task_had(tmp_path):
    reference = TaskRecords(spec_of(tmp_path / "old", (2, 3, 4), (2, 3, 4))).reference
    found = TaskRecords(spec_of(tmp_path / "new", (5, 2), (5, 2)), reference)
    assert found.trigrams(np.array([[0, 0], [1, 1], [0, 1]])).tolist() == [1, 1, 0]
    near = next(found.nearest("left", np.arange(2), np.arange(2), 1, None))
    assert (near.partners.tolist(), near.scores.tolist()) == ([0, 1], [1, 1])


def test_weights_do_not_depend_on_which_texts_the_matrices_are_made_for(trained, tmp_path):
    found = TaskRecords(spec_of(tmp_path / "half", HALF, HALF), trained.reference)
    grams = found._left_grams.take(np.arange(2))
    one = found._weights.weigh(np.arange(2), grams)
    every = trained.reference.weights().weigh(np.arange(2), grams)
    assert one.weights.data.tolist() == every.weights.data.tolist()
    assert len(found._weights.used) < len(trained.reference.weights().used)


def test_the_types_are_those_of_the_model(trained, tmp_path):
    other = spec_of(tmp_path / "other", HALF, HALF, types=("text", "code"))
    assert TaskRecords(other, trained.reference).names == trained.names
    assert TaskRecords(other).names != trained.names


def test_a_reference_comes_back_and_the_same_one_gives_the_same_bytes(trained, tmp_path):
    one, other = (write_reference(tmp_path / name, trained.reference) for name in ("a.safetensors", "b.safetensors"))
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    again = read_reference(one)
    assert again.digest == other.digest == trained.reference.digest
    assert again.sides == Sides.of(trained.left, trained.right)
    pairs = np.array([[0, 1], [2, 2], [5, 3]])
    found = TaskRecords(spec_of(tmp_path / "again", ALL, ALL[:5]), again)
    assert found.compare(pairs).tobytes() == trained.compare(pairs).tobytes()


def test_the_cosine_of_dense_texts_comes_back_and_a_file_without_one_is_as_before(trained, tmp_path):
    dense = replace(trained.reference, dense=0.625)
    saved = write_reference(tmp_path / "dense.safetensors", dense)
    assert read_reference(saved).dense == 0.625
    plain = read_reference(write_reference(tmp_path / "plain.safetensors", trained.reference))
    assert (plain.dense, plain.digest == saved.digest) == (None, False)


@pytest.mark.parametrize("change", ["frequencies", "grams", "most", "types", "symmetric", "dense"])
def test_the_digest_is_of_all_of_it(trained, change):
    known = trained.reference
    grams = replace(known.grams, counts=known.grams.counts + 1)
    sides = {
        "types": Sides.of(corpus_of(ALL, ("text", "number")), trained.right),
        "symmetric": replace(known.sides, symmetric=True),
    }
    others = {
        "frequencies": replace(known, frequencies=known.frequencies + known.frequencies),
        "grams": replace(known, grams=grams),
        "most": replace(known, most=known.most + 1),
        "dense": replace(known, dense=0.0),
        **{name: replace(known, sides=one) for name, one in sides.items()},
    }
    assert others[change].digest != known.digest


def written(reference: Reference, path: Path, change: str) -> SavedReference:
    """Write a reference, and change one thing of the file."""
    saved = write_reference(path, reference)
    content = path.read_bytes()
    arrays = dict(load(content))
    size = int.from_bytes(content[:8], "little")
    about = json.loads(json.loads(content[8 : 8 + size])["__metadata__"][KEY])
    if change == "count":
        arrays["grams.counts"] = arrays["grams.counts"].copy()
        arrays["grams.counts"][0] += 1
    elif change == "order":
        arrays["grams.columns"] = arrays["grams.columns"][::-1].copy()
    elif change == "type":
        about["left"][0][1] = "price"
    elif change == "format":
        about["format"] = 2
    elif change == "3-grams":
        about["3-grams"] = "4-grams"
    elif change == "dense":
        about["dense"] = 1.5
    elif change == "version":
        about["al_ray"] = "99.0"
    path.write_bytes(save(arrays, {KEY: json.dumps(about)})[: -9 if change == "cut" else None])
    return saved


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("count", "holds other frequencies than those that the matcher was trained with; restore it"),
        ("order", "is damaged .its 3-grams are no counts.; restore it"),
        ("type", r"has \[\['name', 'price'\].* as fields; restore it"),
        ("format", "has format 2, and this al_ray reads 1"),
        ("dense", "has 1.5 as the cosine of dense texts; restore it"),
        ("3-grams", "counts 3-grams as 4-grams, and this Python and al_ray as char"),
        ("version", r"was written by al_ray 99.0"),
        ("cut", "cannot be read as the frequencies of a matcher"),
    ],
)
def test_a_changed_file_is_refused(trained, tmp_path, change, message):
    with pytest.raises(BadFile, match=message):
        read_reference(written(trained.reference, tmp_path / "r.safetensors", change))


def test_a_missing_file_is_refused(trained, tmp_path):
    saved = write_reference(tmp_path / "r.safetensors", trained.reference)
    (tmp_path / "r.safetensors").unlink()
    with pytest.raises(BadFile, match="cannot be read as the frequencies of a matcher"):
        read_reference(saved)
