"""Folders that somebody made to harm: names that lead out of them, links, and code that comes with a model."""

import json
import pickle
import shutil
from pathlib import Path

import pytest

from al_ray.api.models import load_model
from al_ray.apps.matching.incremental.state import read_state
from al_ray.apps.matching.written import read_match_texts
from al_ray.apps.reporting.read_runs import read_runs
from al_ray.apps.serving.journal import open_journal
from al_ray.apps.serving.store import StoreWriter, read_store
from al_ray.core.errors import AlRayError, BadFile
from al_ray.core.pairs import NO_KEYS
from al_ray.datasets.task_folder import read_task
from al_ray.metrics.strata import EvaluationSet, Stratum
from al_ray.oracles.page_log import open_page_log
from al_ray.runs.evaluation_sets import EvaluationSets
from al_ray.storage import download
from al_ray.storage.files import write_json
from al_ray.storage.lock import locked
from al_ray.storage.uri import Uri
from tests.apps.annotating.waiting_runs import TOKEN
from tests.fuzz import requests

MODEL = Path("fz-model")
OUTSIDE = ("../fz-one", "/etc", "..", "", "a/b", "a\\b", "a\x00b", 3)


def change(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


@pytest.mark.parametrize("name", OUTSIDE)
def test_no_name_in_a_folder_leads_out_of_it(copied, name):
    change(Path("fz-matches/state.json"), task=name)
    with pytest.raises(BadFile, match=r"state\.json"):
        read_state(Path("fz-matches"))
    with pytest.raises(BadFile, match=r"state\.json has .* as the name of a file in fz-matches"):
        read_match_texts(Path("fz-matches"), NO_KEYS)
    snapshot = json.loads(Path("fz-store/store.json").read_text())["snapshot"]
    change(Path("fz-store/store.json"), snapshot=snapshot | {"table": name})
    with pytest.raises(BadFile, match=r"fz-store/store\.json"):
        read_store(Path("fz-store"))
    cells = json.loads(Path("fz-grid/grid.json").read_text())["cells"]
    change(Path("fz-grid/grid.json"), cells=[cells[0] | {"name": name}])
    with pytest.raises(BadFile, match=r"fz-grid/grid\.json"):
        read_runs(Path("fz-grid"))
    split = read_task(Path("fz-one")).split("dev")
    sets = EvaluationSets([Path("fz-sets")])
    place = sets.write(EvaluationSet("dev", (Stratum("all", NO_KEYS, 0),), NO_KEYS, 0), {"split": "dev"})
    change(Path(str(place)) / "set.json", strata=[{"name": "all", "file": name, "population": 0}])
    with pytest.raises(BadFile, match=r"set\.json"):
        sets.read(split, {"split": "dev"})


def test_the_number_of_a_state_is_no_path(copied):
    change(Path("fz-matches/state.json"), number="/../../fz-matches/state-0001")
    with pytest.raises(BadFile, match=r"state\.json has .* as number"):
        read_state(Path("fz-matches"))


VICTIM = b"a file of the user that has no line end"


@pytest.mark.parametrize("read", [open_page_log, lambda path: open_journal(path, 0, 0)], ids=["page", "journal"])
def test_a_log_that_is_a_link_is_not_followed_and_what_it_leads_to_stays(tmp_path, read):
    (tmp_path / "victim").write_bytes(VICTIM)
    (tmp_path / "batch.page.log").symlink_to(tmp_path / "victim")
    with pytest.raises(BadFile, match=r"batch\.page\.log cannot be written"):
        read(tmp_path / "batch.page.log")
    assert (tmp_path / "victim").read_bytes() == VICTIM


def test_what_a_link_leads_to_is_never_written(copied, tmp_path):
    """A file that is written replaces the link, and a lock that is a link is refused or left as it is."""
    victim = tmp_path / "victim"
    victim.write_bytes(VICTIM)
    for path in (Path("fz-store/model.json"), Path("fz-store/.lock"), Path("fz-run/metrics.jsonl")):
        path.unlink(missing_ok=True)
        path.symlink_to(victim)
    write_json(Path("fz-run/metrics.jsonl"), {})
    assert not Path("fz-run/metrics.jsonl").is_symlink()
    with pytest.raises(AlRayError, match="fz-store"), locked(Path("fz-store")):
        pass
    assert victim.read_bytes() == VICTIM
    Path("fz-store/.lock").unlink()
    StoreWriter(Path("fz-store")).close()
    assert victim.read_bytes() == VICTIM


def test_a_download_stays_in_its_folder():
    folder = Uri("s3", "bucket/run")
    assert download.local_name(Uri("s3", "bucket/run/model/config.json"), folder) == "model/config.json"
    for key in ("../../x", "a/../../x", "/etc/x", "./x", "a//b"):
        with pytest.raises(BadFile, match="cannot be a path below a folder"):
            download.local_name(Uri("s3", f"bucket/run/{key}"), folder)


def test_downloads_are_not_taken_from_a_folder_into_which_others_may_write(tmp_path):
    own, open_to_all, link = tmp_path / "own", tmp_path / "open", tmp_path / "link"
    own.mkdir(mode=0o700)
    download.check_cache_owner(own)
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    link.symlink_to(own)
    for cache in (open_to_all, link):
        with pytest.raises(BadFile, match="set another TMPDIR"):
            download.check_cache_owner(cache)


class Harm:
    """Writes a file when it is unpickled."""

    def __reduce__(self):
        return Path.write_text, (Path("harmed"), "x")


CODE = "from pathlib import Path\nPath('harmed').write_text('x')\nfrom transformers import BertConfig, BertModel\n"
CODE += "from transformers import PreTrainedTokenizerFast\nclass Module: pass\n"
WEIGHTS, INDEX = MODEL / "model.safetensors", MODEL / "model.safetensors.index.json"


def auto_map() -> None:
    change(MODEL / "config.json", auto_map={"AutoConfig": "code.BertConfig", "AutoModel": "code.BertModel"})


def own_type() -> None:
    auto_map()
    change(MODEL / "config.json", model_type="own")


def tokenizer_map() -> None:
    maps = {"AutoTokenizer": ["code.PreTrainedTokenizerFast"] * 2}
    change(MODEL / "tokenizer_config.json", auto_map=maps, tokenizer_class="code.PreTrainedTokenizerFast")


def pickled() -> None:
    WEIGHTS.unlink()
    (MODEL / "pytorch_model.bin").write_bytes(pickle.dumps(Harm()))


def pickled_by_another_name() -> None:
    WEIGHTS.write_bytes(pickle.dumps(Harm()))


def pickled_in_the_index() -> None:
    WEIGHTS.unlink()
    (MODEL / "part.bin").write_bytes(pickle.dumps(Harm()))
    write_json(INDEX, {"metadata": {}, "weight_map": {"embeddings.word_embeddings.weight": "part.bin"}})


def weights_elsewhere() -> None:
    shutil.move(WEIGHTS, "elsewhere.safetensors")
    write_json(INDEX, {"metadata": {}, "weight_map": {"embeddings.word_embeddings.weight": "../elsewhere.safetensors"}})


def module(**fields: str) -> None:
    modules = json.loads((MODEL / "modules.json").read_text())
    modules[1] |= fields
    write_json(MODEL / "modules.json", modules)


def kernel() -> None:
    change(MODEL / "config.json", _attn_implementation="somebody/kernel")


def inner_kernel() -> None:
    change(MODEL / "config.json", text_config={"experts_implementation": {"": "somebody/kernel"}})


def adapter() -> None:
    write_json(MODEL / "adapter_config.json", {"base_model_name_or_path": "somebody/model", "peft_type": "LORA"})


def large(**fields: int) -> None:
    change(MODEL / "config.json", **fields)


# What is changed in a model folder -> what is said; None: it is read, and no code is run.
HOSTILE = {
    "auto_map": (auto_map, None),
    "tokenizer": (tokenizer_map, None),
    "own type": (own_type, "fz-model cannot be loaded"),
    "pickle": (pickled, "no file named model.safetensors"),
    "pickle named safetensors": (pickled_by_another_name, "fz-model cannot be loaded"),
    "pickle in the index": (pickled_in_the_index, "index.json has 'part.bin' as a file of weights"),
    "weights elsewhere": (weights_elsewhere, "index.json has '../elsewhere.safetensors' as a file of weights"),
    "module": (lambda: module(type="code.Module"), "the module code.Module with code of its own"),
    "module elsewhere": (lambda: module(path="../fz-model/1_Pooling"), "outside of it"),
    "kernel": (kernel, "the _attn_implementation 'somebody/kernel', which is code of others"),
    "inner kernel": (inner_kernel, "which is code of others"),
    "adapter": (adapter, "adapter_config.json, which names another model"),
    "wide": (lambda: large(hidden_size=2**20), "fz-model cannot be loaded"),
    "many words": (lambda: large(vocab_size=2**40), "fz-model cannot be loaded"),
    "many layers": (lambda: large(num_hidden_layers=500), "lacks"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_model_folder_runs_no_code_and_reads_no_pickle(copied, name):
    harm, words = HOSTILE[name]
    (MODEL / "code.py").write_text(CODE)
    harm()
    if words is None:
        load_model(MODEL)
    else:
        with pytest.raises(AlRayError) as refused:
            load_model(MODEL)
        assert words in str(refused.value)
        assert "fz-model" in str(refused.value)
    assert not Path("harmed").exists()


def test_a_body_that_is_nested_without_end_is_refused(copied):
    client = requests.service_client()
    deep = b'{"texts": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    for method, path in (("POST", "/match"), ("PUT", "/texts"), ("DELETE", "/texts")):
        answer = client.request(method, path, content=deep, headers=headers)
        assert (answer.status_code, list(answer.json())) == (400, ["error"])
    assert client.post("/match", json={"texts": "why"}, headers=headers).status_code == 200
