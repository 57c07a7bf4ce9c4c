"""How far a run is, by the small files of its folder: read without what a run needs, so that commands start at once."""

from al_ray.active_learning.config import RunConfig
from al_ray.core.config.serialization import from_dict
from al_ray.core.errors import BadFile, BadOption, WrongFolder
from al_ray.core.naming import Code, call, options_of
from al_ray.runs.config_file import read_config_file
from al_ray.storage.files import read_json
from al_ray.storage.uri import StoragePath

ENDED = "ended.json"


def last_round(path: StoragePath) -> int:
    """Return the last complete round of a run folder, 0 before the first."""
    state = path / "state.json"
    last = read_json(state, ["round"])["round"] if state.exists() else 0
    if not isinstance(last, int) or isinstance(last, bool) or last < 0:
        raise BadFile(f"{state} counts {last!r} rounds; restore it")
    return last


def at_its_end(path: StoragePath, config: RunConfig) -> bool:
    """Return whether a run has all rounds of its config or was stopped before; new limits may resume a stopped one."""
    last, mark = last_round(path), path / ENDED
    if last >= len(config.batches) or not last or not mark.exists():
        return last >= len(config.batches)
    content = read_json(mark, ["round", "why"])
    return content["round"] == last and content["why"] is not None


def bound_config(path: StoragePath) -> RunConfig:
    """Return the config of a run folder; WrongFolder if it is none."""
    if not (path / "config.json").is_file():
        # The folder of `jobs.labels import` has labels alone.
        run = call("run", config=options_of("RunConfig", task=Code("TASK")), out=path)
        begin = f"it has labels: start a run on them ({run}), or restore it"
        give = "give the folder of a run (made by: `al_ray.run`)"
        raise WrongFolder(f"{path} holds no config.json; {begin if (path / 'round-001').is_dir() else give}")
    content = read_config_file(path)
    try:
        return from_dict(RunConfig, {name: value for name, value in content.items() if name != "task_digest"})
    except BadOption as error:
        raise BadFile(f"{path / 'config.json'}: {error} (restore it)") from error
