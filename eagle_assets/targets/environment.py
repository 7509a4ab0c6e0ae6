"""Whether every package that a run needs is here, imports, and does what the run relies on.

Only the standard library is needed to ask: a package that is missing is what there is to report. What is
needed is read from the metadata of `eagle-assets` itself.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import sys
import tempfile
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

DISTRIBUTION = "eagle-assets"


@dataclass(frozen=True, slots=True)
class Package:
    """A requirement and what was found. `problem` is a sentence and `remedy` a command, both None where all is well."""

    name: str
    required: str
    version: str | None
    problem: str | None = None
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Environment:
    """Every package that a run needs."""

    python: str
    packages: tuple[Package, ...]

    @property
    def passed(self) -> bool:
        return all(package.problem is None for package in self.packages)

    @property
    def problems(self) -> tuple[Package, ...]:
        """The packages that are missing or do not work."""
        return tuple(package for package in self.packages if package.problem is not None)

    def works(self, *names: str) -> bool:
        """Whether none of these packages has a problem."""
        return not {package.name for package in self.problems} & set(names)


def check_environment() -> Environment:
    """Import each required package and hold its version and behaviour against what the run needs."""
    python = ".".join(map(str, sys.version_info[:3]))
    try:
        requirements = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        problem = f"{DISTRIBUTION} is not installed, so what it requires is not known"
        return Environment(python, (Package(DISTRIBUTION, "", None, problem, _pip("-e", ".")),))
    names = _modules_of_distributions()
    return Environment(python, tuple(_checked(line, names) for line in requirements if _applies(line)))


def _applies(requirement: str) -> bool:
    """Whether a line of the metadata is about this Python and no extra."""
    try:
        from packaging.requirements import Requirement
    except ImportError:
        return "extra ==" not in requirement
    marker = Requirement(requirement).marker
    return marker is None or marker.evaluate({"extra": ""})


def _checked(requirement: str, modules: dict[str, list[str]]) -> Package:
    line = requirement.partition(";")[0].strip()
    name = re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]
    required = line[len(name) :].strip()
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Package(name, required, None, f"{name} is not installed", _pip(line))
    problem_and_remedy = (
        _import_problem(name, line, _module(name, modules.get(_normal(name), [])))
        or _version_problem(name, version, required, line)
        or _behaviour_problem(name, version)
    )
    return Package(name, required, version, *(problem_and_remedy or (None, None)))


Problem = tuple[str, str]


def _import_problem(name: str, line: str, module: str | None) -> Problem | None:
    if module is None:
        return None
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # it would advise torch, which only a judge needs
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or module).partition(".")[0]
        if missing == module:
            return f"{name} is installed, but its module {module} is missing", _pip("--force-reinstall", line)
        return f"{name} does not import: it needs {missing}, which is missing", _pip(missing)
    except Exception as error:  # a broken binary or a clash of versions shows as anything
        return f"{name} does not import ({type(error).__name__}: {error})", _pip("--force-reinstall", line)
    return None


def _version_problem(name: str, version: str, required: str, line: str) -> Problem | None:
    if not required:
        return None
    try:
        from packaging.requirements import Requirement
    except ImportError:
        return f"the version of {name} cannot be compared without packaging", _pip("packaging")
    if Requirement(line).specifier.contains(version, prereleases=True):
        return None
    return f"{name} is {version}, and the run needs {required}", _pip(line)


def _behaviour_problem(name: str, version: str) -> Problem | None:
    behaviour = _BEHAVIOURS.get(name)
    if behaviour is None:
        return None
    try:
        problem = behaviour()
    except Exception as error:  # whatever it is, the run cannot rely on this package
        problem = f"its test ended with {type(error).__name__}: {error}"
    return None if problem is None else (f"{name} {version}: {problem}", _pip("--upgrade", name))


def _transformers_keeps_marker_ids() -> str | None:
    """A 5.x release closed the gaps between added tokens: every Kimi K2.5 marker above 163588 had a wrong id."""
    from transformers import AutoTokenizer

    markers = {256: "<|a|>", 257: "<|b|>", 259: "<|c|>", 300: "<|d|>"}
    with tempfile.TemporaryDirectory() as folder:
        ranks = "".join(f"{b64encode(bytes([i])).decode()} {i}\n" for i in range(256))
        Path(folder, "tiktoken.model").write_text(ranks)
        config = {
            "tokenizer_class": "TikTokenTokenizer",
            "added_tokens_decoder": {str(i): {"content": text, "special": True} for i, text in markers.items()},
        }
        Path(folder, "tokenizer_config.json").write_text(json.dumps(config))
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        except Exception:  # a release that does not convert such a folder cannot convert it wrongly
            return None
        wrong = {text: got for i, text in markers.items() if (got := tokenizer.convert_tokens_to_ids(text)) != i}
    return f"gives special tokens wrong ids where theirs have gaps ({wrong})" if wrong else None


def _renderers_ends_in_think() -> str | None:
    from eagle_assets.targets.kimi import target_named
    from eagle_assets.targets.prompt import prompt_ids

    target = target_named("moonshotai/kimi-k2.5")
    expected = "<|im_user|>user<|im_middle|>Hi<|im_end|><|im_assistant|>assistant<|im_middle|><think>"
    ids = prompt_ids(target, {"messages": [{"role": "user", "content": "Hi"}]})
    got = target.vocabulary.decode(ids).decode()
    return None if got == expected else f"renders the prompt {got!r}, not {expected!r}"


_BEHAVIOURS: dict[str, Callable[[], str | None]] = {
    "transformers": _transformers_keeps_marker_ids,
    "renderers": _renderers_ends_in_think,
}


def _modules_of_distributions() -> dict[str, list[str]]:
    """Public top-level modules of each installed distribution, by its normalised name."""
    modules: dict[str, list[str]] = {}
    for module, names in metadata.packages_distributions().items():
        if module.isidentifier() and not module.startswith("_"):
            for name in names:
                modules.setdefault(_normal(name), []).append(module)
    return modules


def _module(name: str, modules: list[str]) -> str | None:
    """The module that a distribution is imported by: the one of its own name, or else its first."""
    return next((module for module in modules if _normal(module) == _normal(name)), next(iter(modules), None))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pip(*arguments: str) -> str:
    return shlex.join([sys.executable, "-m", "pip", "install", *arguments])
