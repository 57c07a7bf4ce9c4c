"""Prompts: texts that an encoder expects before the left and before the right texts, such as 'query: '."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from al_ray.core.config.encoder import EncoderConfig
from al_ray.core.errors import BadFile, BadOption
from al_ray.encoders.modules import read_settings
from al_ray.storage.files import write_json

Side = Literal["left", "right"]
FILE = "config_sentence_transformers.json"
QUERY, DOCUMENT = ("query",), ("document", "passage", "corpus")
"""Names of the prompt of each side, as in `encode_query` and `encode_document` of sentence-transformers."""


@dataclass(frozen=True)
class StoredPrompts:
    """The prompts of a folder, text by name, and the name of the default one."""

    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    default: str | None = None

    def of_side(self, names: tuple[str, ...]) -> str:
        """Return the first text under these names; without any of QUERY and DOCUMENT, the default prompt."""
        if any(self.texts.get(name) for name in (*QUERY, *DOCUMENT)):
            return next((self.texts[name] for name in names if self.texts.get(name)), "")
        return self.texts.get(self.default or "", "")

    def name_of_left(self) -> str | None:
        """Return the value of --prompt-left that gives the left prompt; None if it is that of right texts, too."""
        if self.of_side(QUERY) == self.of_side(DOCUMENT):
            return None
        return next((name for name in QUERY if self.texts.get(name)), "")

    def named(self, value: str, option: str, encoder: str) -> str:
        """Return the text of an option: that of the name, or the value itself if it is more than a word."""
        if value in self.texts or not re.fullmatch(r"[\w-]+", value):
            return self.texts.get(value, value)
        names = f"its prompts are {', '.join(sorted(self.texts))}" if self.texts else "it names no prompts"
        raise BadOption(
            f"{option} {value}: encoder {encoder} has no prompt of that name ({names}); give a name, or a text such as "
            "'query: '"
        )


@dataclass(frozen=True)
class Prompts:
    """The text before each left text and before each right text; "" for none."""

    left: str = ""
    right: str = ""

    @staticmethod
    def of(config: EncoderConfig, stored: StoredPrompts) -> "Prompts":
        """Return the prompts of --prompt-left and --prompt-right, and by default those of the folder."""
        left, right = (
            stored.of_side(names) if value is None else stored.named(value, option, config.encoder)
            for value, option, names in (
                (config.prompt_left, "`prompt_left`", QUERY),
                (config.prompt_right, "`prompt_right`", DOCUMENT),
            )
        )
        return Prompts(left, right)

    def of_side(self, side: Side) -> str:
        """Return the prompt of a side."""
        return self.left if side == "left" else self.right

    @property
    def description(self) -> str:
        """Return a phrase for people: `prompt 'query: ' before left texts, no prompt before right texts`."""
        if not (self.left or self.right):
            return "no prompt"
        left, right = (f"prompt {text!r}" if text else "no prompt" for text in (self.left, self.right))
        return f"{left} before all texts" if left == right else f"{left} before left texts, {right} before right texts"

    @property
    def digested(self) -> dict[str, Any]:
        """Return what decides vectors, nothing if there are no prompts: digests name files on disk."""
        return {"prompts": [self.left, self.right]} if self.left or self.right else {}

    def write(self, folder: Path) -> None:
        """Write them so that sentence-transformers uses them: in `encode` the left one, and by side."""
        content: dict[str, Any] = {"similarity_fn_name": "cosine"}
        if self.digested:
            content |= {"prompts": {"query": self.left, "document": self.right}}
            content |= {"default_prompt_name": "query"} if self.left else {}
        write_json(folder / FILE, content)


def read_prompts(folder: str) -> StoredPrompts:
    """Read the prompts of a local folder or of a name on the hub; BadOption for a folder of another kind of model."""
    about = read_settings(folder, FILE) or {}
    kind = about.get("model_type") or "SentenceTransformer"
    if kind != "SentenceTransformer":
        raise BadOption(f"encoder {folder!r} is a {kind}, no bi-encoder; give another `encoder`")
    prompts, default = about.get("prompts") or {}, about.get("default_prompt_name")
    if not isinstance(prompts, dict) or not isinstance(default, str | None):
        raise BadFile(f"encoder {folder!r}: the prompts in {FILE} are not texts by name; restore it")
    return StoredPrompts({str(name): str(text or "") for name, text in prompts.items()}, default)
