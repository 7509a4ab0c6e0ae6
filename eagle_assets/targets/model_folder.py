"""The tokenizer and chat template of a model folder, as a user has it beside the weights, held against ours.

A folder's Python files are run only where the user says so. Otherwise a `tokenizer.json` loads through
transformers without them, and a `tiktoken.model` is read here: its digest and its special tokens say enough.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from eagle_assets.targets.encoders import Agreement, compare
from eagle_assets.targets.findings import ModelFolderError, Section, Trial, shown
from eagle_assets.targets.kimi import known_targets
from eagle_assets.targets.prompt import prompt_ids
from eagle_assets.targets.vocabulary import Vocabulary


@dataclass(frozen=True)
class ModelFolder:
    """What a folder holds. `tokenizer` is transformers' object, or None where none was loaded, and `how` says why.

    `special` are the ids of special tokens by text, as the folder gives them; `load_error` is a sentence.
    """

    path: Path
    tiktoken_sha256: str | None
    special: dict[str, int]
    chat_template: str | None
    tokenizer: Any
    how: str
    ran_code: bool
    load_error: str | None = None


def read_model_folder(path: Path, trust_remote_code: bool = False) -> ModelFolder:
    """Read a folder; its own code runs only with `trust_remote_code`.

    Raises ModelFolderError where there is no tokenizer, or a file that cannot be read as what it should be.
    """
    if not path.is_dir():
        raise ModelFolderError(f"{path} is no folder; --model-dir takes the folder with the model's tokenizer files")
    config = _json_object(path / "tokenizer_config.json")
    ranks, fast = path / "tiktoken.model", path / "tokenizer.json"
    if not ranks.is_file() and not fast.is_file():
        raise ModelFolderError(f"{path} has neither tiktoken.model nor tokenizer.json, so it holds no tokenizer")
    code = _remote_class(config)
    tokenizer, error, ran_code = None, None, False
    if code is not None and trust_remote_code:
        how, ran_code = f"the folder's own code ({code}) was run through transformers", True
        tokenizer, error = _load(path, trust_remote_code=True)
    elif fast.is_file():
        how = "tokenizer.json was loaded through transformers; no code of the folder was run"
        tokenizer, error = _load(path, trust_remote_code=False)
    elif code is not None:
        how = (
            f"the folder's own code ({code}) was NOT run (--trust-remote-code runs it); "
            "tiktoken.model and tokenizer_config.json were read instead"
        )
    else:
        how = "tiktoken.model and tokenizer_config.json were read; the folder names no tokenizer code"
    return ModelFolder(
        path=path,
        tiktoken_sha256=hashlib.sha256(ranks.read_bytes()).hexdigest() if ranks.is_file() else None,
        special=_special_ids(path, config),
        chat_template=_chat_template(path, config),
        tokenizer=tokenizer,
        how=how,
        ran_code=ran_code,
        load_error=error,
    )


def wrong_special_ids(folder: ModelFolder, vocabulary: Vocabulary) -> dict[str, int]:
    """Special tokens to which the folder's files, or its loaded tokenizer, give another id than the vocabulary."""
    ids = dict(folder.special)
    if folder.tokenizer is not None:
        named = [text for text in vocabulary.special if "reserved" not in text]
        ids |= {text: folder.tokenizer.convert_tokens_to_ids(text) for text in named}
    return {text: token for text, token in ids.items() if vocabulary.special.get(text) != token}


def agreement_with(folder: ModelFolder, vocabulary: Vocabulary, texts: Sequence[str]) -> Agreement | None:
    """Ids of the loaded tokenizer against ours, on texts without markers (transformers reads those as markers)."""
    if folder.tokenizer is None:
        return None
    plain = [text for text in texts if not any(marker in text for marker in vocabulary.special)]
    return compare(
        "transformers", lambda text: folder.tokenizer.encode(text, add_special_tokens=False), vocabulary, plain
    )


def folder_section(folder: ModelFolder, vocabulary: Vocabulary, agreement: Agreement | None) -> Section:
    """What was and what was not run and read, and whether it agrees."""
    trials = [Trial("how it was read", folder.how)]
    if folder.load_error is not None:
        trials.append(Trial("loading the tokenizer", folder.load_error, False))
    if folder.tiktoken_sha256 is not None:
        same = folder.tiktoken_sha256 == vocabulary.sha256
        trials.append(Trial("tiktoken.model", "the official file" if same else "NOT the official file", same))
    wrong = wrong_special_ids(folder, vocabulary)
    trials.append(_special_trial(folder, wrong, vocabulary))
    if agreement is not None:
        trials.append(
            Trial(
                f"transformers on {agreement.texts:,} hard texts without markers",
                agreement.first_difference or f"{agreement.tokens:,} tokens, all the same",
                agreement.differences == 0,
            )
        )
    trials.append(_template_trial(folder))
    return Section(
        f"Model folder {folder.path}", tuple(trials), "What was read of the folder agrees with the embedded vocabulary."
    )


def _special_trial(folder: ModelFolder, wrong: dict[str, int], vocabulary: Vocabulary) -> Trial:
    if wrong:
        listed = ", ".join(f"{text} is {token}, not {vocabulary.special.get(text)}" for text, token in wrong.items())
        return Trial("special tokens", listed, False)
    if folder.special or folder.tokenizer is not None:
        return Trial("special tokens", f"{len(folder.special)} listed in its files, all with the right ids", True)
    return Trial("special tokens", "the folder lists none, so there was nothing to compare")


def _template_trial(folder: ModelFolder) -> Trial:
    """The folder's chat template, rendered in transformers' sandbox, against the prompts of the known targets."""
    if folder.chat_template is None:
        return Trial("chat template", "the folder has none")
    from transformers.utils.chat_template_utils import render_jinja_template

    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    try:
        # A tuple of texts and generation spans in some releases, the texts alone in others.
        rendered: Any = render_jinja_template(
            [messages], chat_template=folder.chat_template, add_generation_prompt=True
        )
    except Exception as error:  # a template may raise whatever it likes
        return Trial("chat template", f"does not render a plain conversation ({type(error).__name__}: {error})")
    while not isinstance(rendered, str):
        rendered = rendered[0]
    for target in known_targets():
        ours = target.vocabulary.decode(prompt_ids(target, {"messages": messages})).decode()
        if ours == rendered:
            return Trial("chat template", f"{len(folder.chat_template):,} characters; prompts as for {target.name}")
    return Trial("chat template", f"gives a prompt that no known target has: {shown(rendered, 120)}")


def _load(path: Path, trust_remote_code: bool) -> tuple[Any, str | None]:
    """The tokenizer, or None and a sentence."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    # Kimi's tokenizer logs a warning for each text that it is given with a keyword.
    logging.getLogger("transformers_modules").setLevel(logging.ERROR)
    try:
        if trust_remote_code:
            return AutoTokenizer.from_pretrained(str(path), trust_remote_code=True, local_files_only=True), None
        return PreTrainedTokenizerFast.from_pretrained(str(path), local_files_only=True), None
    except ImportError as error:
        if "bytes_to_unicode" in str(error):
            return None, (
                "tokenization_kimi.py is an older one that does not import under transformers 5 (bytes_to_unicode has "
                "moved to transformers.convert_slow_tokenizer); take the file of a newer revision of the model, or "
                "leave --trust-remote-code away: nothing of it is needed here"
            )
        return None, f"the folder's tokenizer does not load: {_one_line(error)}"
    except Exception as error:  # foreign code and files raise anything
        return None, f"the folder's tokenizer does not load ({type(error).__name__}: {_one_line(error)})"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _remote_class(config: dict[str, Any]) -> str | None:
    """The class that `auto_map` names for the tokenizer, as MODULE.CLASS."""
    named = config.get("auto_map")
    if isinstance(named, dict):
        named = named.get("AutoTokenizer")
    if isinstance(named, list):
        named = next((name for name in reversed(named) if name), None)
    return named if isinstance(named, str) else None


def _special_ids(path: Path, config: dict[str, Any]) -> dict[str, int]:
    """Special tokens by text, from tokenizer_config.json and tokenizer.json."""
    decoder = config.get("added_tokens_decoder")
    pairs = [(t, token) for token, t in decoder.items()] if isinstance(decoder, dict) else []
    if (path / "tokenizer.json").is_file():
        added = _json_object(path / "tokenizer.json").get("added_tokens") or []
        pairs += [(entry, entry.get("id")) for entry in added if isinstance(entry, dict)]
    ids = {}
    for entry, token in pairs:
        text = entry.get("content") if isinstance(entry, dict) else entry
        try:
            ids[str(text)] = int(cast(Any, token))
        except (TypeError, ValueError):
            raise ModelFolderError(f"{path} gives {text!r} the id {token!r}, which is no number") from None
    return ids


def _chat_template(path: Path, config: dict[str, Any]) -> str | None:
    file = path / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    template = config.get("chat_template")
    if isinstance(template, list):  # several by name
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None


def _json_object(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelFolderError(f"{path} is no JSON ({error})") from None
    if not isinstance(value, dict):
        raise ModelFolderError(f"{path} holds no JSON object")
    return value
