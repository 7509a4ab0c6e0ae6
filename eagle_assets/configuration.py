"""What a user sets: the environment (also from a `.env` file) and the datasets file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from eagle_assets.cron import comes
from eagle_assets.export_options import DEFAULT_DRAFT_SIZE, DEFAULT_LEAST_VERDICT, Dedup, Format, LeastVerdict

PACKAGED_DATASETS_FILE = Path(__file__).parent / "datasets.yaml"
ALWAYS_EXCLUDED = ("fireworks", "baseten")  # they serve requantised weights (FACTS 3)

MOST_ANSWER_TOKENS = 1_000_000  # more than any context that a model has
MOST_LETTERS_OF_A_NAME = 100  # as folders are called so, and file systems take 255 bytes

PROBES = "probes"
"""The name under which probes are journaled and entered into the ledger, as if it were a dataset."""

_TAKEN = {PROBES: "what providers are tried with is kept under it", "all": "what is of no dataset, or of all, has it"}


class ConfigurationError(Exception):
    """The datasets file or the environment cannot be used; the message says what to change."""


def _blank_is_none(value: object) -> object:
    return value.strip() or None if isinstance(value, str) else value


def _fits_into_a_header(secret: SecretStr | None) -> SecretStr | None:
    if secret is not None and not re.fullmatch("[!-~]+", secret.get_secret_value()):
        raise ValueError("a key has neither blanks nor letters beyond ASCII; copy it again")
    return secret


Secret = Annotated[SecretStr | None, BeforeValidator(_blank_is_none), AfterValidator(_fits_into_a_header)]


def _is_an_address(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of a port that is no number
        is_one = False
    if not is_one:
        raise ValueError(f"{url!r} is no address of a server: write it like 'http://gpu:8000/v1'")
    return url


BaseUrl = Annotated[str, AfterValidator(_is_an_address)]


def revealed(secret: Secret) -> str | None:
    """The text of a secret; None where there is none."""
    return None if secret is None else secret.get_secret_value()


class Settings(BaseSettings):
    """Environment variables; a `.env` file in the working folder counts too, the environment wins.

    Raises ConfigurationError.
    """

    model_config = SettingsConfigDict(env_file=".env", extra="ignore", frozen=True)

    home: Path = Field(default=Path("data"), validation_alias="EAGLE_ASSETS_HOME")
    datasets_file: Path = Field(default=PACKAGED_DATASETS_FILE, validation_alias="EAGLE_ASSETS_DATASETS")
    api_key: Secret = Field(default=None, validation_alias="OPENROUTER_API_KEY")
    judge_key: Secret = Field(default=None, validation_alias="EAGLE_ASSETS_JUDGE_KEY")
    base_url: BaseUrl = Field(default="https://openrouter.ai/api/v1", validation_alias="OPENROUTER_BASE_URL")
    server_key: Secret = Field(default=None, validation_alias="EAGLE_ASSETS_SERVER_KEY")

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ConfigurationError(problems_in_words(error)) from None
        except UnicodeDecodeError:
            raise ConfigurationError("the file .env is no text in UTF-8: write it anew, NAME=value a line") from None


def _is_named(path: object) -> object:
    if path == "":
        raise ValueError("it is blank; name a file")
    return path


File = Annotated[Path, BeforeValidator(_is_named)]


class Frozen(BaseModel):
    """A part of the datasets file: unknown keys are mistakes, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _truth_is_no_number(cls, keys: object) -> object:
        for key, value in keys.items() if isinstance(keys, dict) else ():
            field = cls.model_fields.get(key) if isinstance(key, str) else None
            if (
                isinstance(value, bool)
                and field is not None
                and bool not in (field.annotation, *get_args(field.annotation))
            ):
                raise ValueError(f"`{key}` is neither true nor false; YAML reads yes and no as these too")
        return keys


class MaxPrice(Frozen):
    """Dollars for a million tokens, and for one request or image."""

    prompt: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    completion: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    request: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    image: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    def limits(self) -> dict[str, float]:
        """Those that are set."""
        limits: dict[str, float] = self.model_dump(exclude_none=True)
        return limits


class Routing(Frozen):
    """OpenRouter's `provider` object of a request. `ignore` always holds the excluded providers besides."""

    ignore: tuple[str, ...] = ()
    only: Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    order: tuple[str, ...] | None = None
    allow_fallbacks: bool | None = None
    require_parameters: bool | None = None
    max_price: MaxPrice = MaxPrice()

    @model_validator(mode="after")
    def _leaves_someone(self) -> Routing:
        excluded = {name.casefold() for name in (*ALWAYS_EXCLUDED, *self.ignore)}
        if self.only and excluded.issuperset(map(str.casefold, self.only)):
            raise ValueError(f"`only` names nobody but {', '.join(self.only)}, and that is excluded")
        return self

    def as_request(self) -> dict[str, Any]:
        """The object as it is sent, without what is not set."""
        return dict(self._sent)

    @cached_property
    def _sent(self) -> dict[str, Any]:
        ignored = list(dict.fromkeys((*ALWAYS_EXCLUDED, *self.ignore)))
        asked = {**self.model_dump(mode="json", exclude_none=True), "ignore": ignored}
        return {key: value for key, value in asked.items() if value != {}}


class OpenRouterDataset(Frozen):
    """A dataset bought from OpenRouter: `prompts` is a JSONL file, `limit_per_tick` counts prompts. What is per tick
    bounds each run that its schedule launches."""

    source: Literal["openrouter"]
    prompts: File
    max_tokens: int = Field(default=4_096, gt=0, le=MOST_ANSWER_TOKENS)
    cron: str | None = None
    budget_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    limit_per_tick: int | None = Field(default=None, gt=0)
    budget_usd_per_tick: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @field_validator("cron")
    @classmethod
    def _is_a_time(cls, cron: str | None) -> str | None:
        if cron is not None and not comes(cron):
            raise ValueError(f"{cron!r} is no time: minute, hour, day, month and weekday are wanted, as in '0 3 * * *'")
        return cron


class LocalDataset(Frozen):
    """A dataset whose ids came from the team's own server: `responses` is a JSONL file."""

    source: Literal["local"]
    responses: File


class ServerDataset(Frozen):
    """A dataset that the team's own OpenAI-compatible server (vLLM, SGLang) answers, with the ids that it generated.

    `base_url` ends in `/v1`; `model` is the target model's name there. `extra_body` goes into every request, such as
    `{"chat_template_kwargs": {"thinking": false}}`.
    """

    source: Literal["server"]
    base_url: BaseUrl
    prompts: File
    model: str | None = None
    max_tokens: int = Field(default=4_096, gt=0, le=MOST_ANSWER_TOKENS)
    extra_body: dict[str, Any] = {}


Dataset = Annotated[OpenRouterDataset | LocalDataset | ServerDataset, Field(discriminator="source")]


class ServedJudge(Frozen):
    """The target model behind an inference server: `model` is the name by which a vLLM server knows it."""

    kind: Literal["sglang", "vllm"]
    base_url: BaseUrl
    model: str | None = None


class LocalJudge(Frozen):
    """The target model in a folder, as transformers reads it."""

    kind: Literal["transformers"]
    folder: File


Judge = Annotated[ServedJudge | LocalJudge, Field(discriminator="kind")]


class Export(Frozen):
    """An export that the asset `exports` makes; the options are those of `eagle-assets export`."""

    format: Format
    datasets: tuple[str, ...] = ()
    max_length: int | None = Field(default=None, gt=0)
    cut: bool = False
    min_verdict: LeastVerdict = DEFAULT_LEAST_VERDICT
    dedup: Dedup | None = None
    eval_share: float = Field(default=0.0, ge=0, lt=1)
    weights: dict[str, Annotated[float, Field(gt=0, le=100)]] = {}
    draft_size: int = Field(default=DEFAULT_DRAFT_SIZE, gt=0)

    @model_validator(mode="after")
    def _cuts_at_a_length(self) -> Export:
        if self.cut and self.max_length is None:
            raise ValueError("`cut` needs a `max_length`")
        return self


class Configuration(Frozen):
    """The datasets file, with every path made absolute."""

    datasets: dict[str, Dataset]
    budget_usd: float = Field(default=100.0, gt=0, allow_inf_nan=False)
    target: str = "moonshotai/kimi-k2.5"
    concurrency: int = Field(default=16, gt=0)
    routing: Routing = Routing()
    max_residual_error: float = Field(default=0.05, gt=0, lt=1)
    judge: Judge | None = None
    exports: dict[str, Export] = {}

    @model_validator(mode="after")
    def _names_are_plain(self) -> Configuration:
        for kind, names in (("dataset", self.datasets), ("export", self.exports)):
            for name in names:
                if not re.fullmatch("[A-Za-z0-9_-]+", name):
                    raise ValueError(f"{kind} name {name!r} may hold letters of ASCII, digits, '-' and '_' only")
                if len(name) > MOST_LETTERS_OF_A_NAME:
                    raise ValueError(f"{kind} name {name[:20]!r}… is longer than {MOST_LETTERS_OF_A_NAME} letters")
        one_name_each = {name.replace("-", "_"): name for name in self.datasets}
        for name in self.datasets:
            if (other := one_name_each[name.replace("-", "_")]) != name:
                raise ValueError(f"dataset names {name!r} and {other!r} differ in '-' and '_' only; rename one")
        for name in _TAKEN.keys() & self.datasets.keys():
            raise ValueError(f"dataset name {name!r} is taken: {_TAKEN[name]}")
        return self

    @model_validator(mode="after")
    def _exports_are_of_datasets(self) -> Configuration:
        for name, export in self.exports.items():
            for dataset in (*export.datasets, *export.weights):
                if dataset not in self.datasets:
                    raise ValueError(f"exports.{name} names {dataset!r}, which is no dataset of this file")
        return self

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages of a dataset, in the order of the lineage."""
        judged = () if self.judge is None else ("judged_sequences",)
        return ("prompts", "raw_responses", "token_sequences", *judged, "training_shards")

    @property
    def verdict_stage(self) -> str:
        """The stage whose verdicts the shards go by."""
        return self.stages[-2]

    @property
    def bought(self) -> dict[str, OpenRouterDataset]:
        return {n: d for n, d in self.datasets.items() if isinstance(d, OpenRouterDataset)}

    @property
    def local(self) -> dict[str, LocalDataset]:
        return {n: d for n, d in self.datasets.items() if isinstance(d, LocalDataset)}

    @property
    def own(self) -> dict[str, LocalDataset | ServerDataset]:
        """The datasets whose ids the team's own server gave."""
        return {n: d for n, d in self.datasets.items() if not isinstance(d, OpenRouterDataset)}


_MODEL_OF: Mapping[int | str, type[Frozen]] = {
    "openrouter": OpenRouterDataset,
    "local": LocalDataset,
    "server": ServerDataset,
    "sglang": ServedJudge,
    "vllm": ServedJudge,
    "transformers": LocalJudge,
    "routing": Routing,
    "max_price": MaxPrice,
    "exports": Export,
}


def problems_in_words(error: ValidationError) -> str:
    """All that is wrong with what a user set, none of it quoted where it may be secret."""
    return "; ".join(map(_in_words, error.errors()))


def _in_words(problem: ErrorDetails) -> str:
    """What is wrong where, and for a key that is not known the one that may be meant."""
    tags, place = ("openrouter", "local", "server", "sglang", "vllm", "transformers"), problem["loc"]
    where = ".".join(str(part) for i, part in enumerate(place) if not (i == 2 and part in tags)) or "file"
    where = where.replace(".[key]", ", a name,")
    if problem["type"] == "extra_forbidden":
        named = place[:1] + place[2:] if place[0] in ("datasets", "exports") else place  # without the user's own name
        model = next((_MODEL_OF[part] for part in reversed(named[:-1]) if part in _MODEL_OF), Configuration)
        meant = get_close_matches(str(place[-1]), model.model_fields, 1)
        return f"{where} is no key that is known here" + (f"; is `{meant[0]}` meant?" if meant else "")
    if problem["type"] == "union_tag_invalid":
        context = problem["ctx"]
        return (
            f"{where}.{context['discriminator'].strip(chr(39))} is {context['tag']!r}, not {context['expected_tags']}"
        )
    for kinds, wanted in _WANTED.items():
        if re.fullmatch(kinds, problem["type"]):
            return f"{where} {wanted}"
    if problem["type"] == "union_tag_not_found":
        return f"{where} lacks its `{problem['ctx']['discriminator'].strip(chr(39))}`"
    if problem["msg"].startswith("Input should be "):
        return f"{where} has to be {problem['msg'].removeprefix('Input should be ')}"
    return f"{where}: {problem['msg'].removeprefix('Value error, ')}"


_WANTED: Mapping[str, str] = {
    "missing": "is missing",
    "string_type": "has to be text, in quotes where it looks like a number",
    "path_type": "has to be the name of a file",
    "too_short": "has to name one at least",
    "tuple_type": "has to be a list, as in [B3, B4]",
    "dict_type|model_type|model_attributes_type": "has to hold keys with values, as in {key: value}",
    "float_.*": "has to be a number",
    "finite_number": "has to be a finite number",
    "int_.*": "has to be a whole number",
    "bool_.*": "has to be true or false",
}


_MERGE = "tag:yaml.org,2002:merge"  # a `<<` stands for the keys of another mapping


class _Loader(yaml.CSafeLoader):
    """Refuses a key that stands twice in one place, of which YAML takes the last without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value if key.tag != _MERGE]
        twice = next((key for place, key in enumerate(keys) if key in keys[:place]), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"{twice!r} stands there twice", node.start_mark)
        return super().construct_mapping(node, deep)


def load_configuration(path: Path) -> Configuration:
    """Read a datasets file; relative paths in it are relative to it. Raises ConfigurationError."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigurationError(f"datasets file {path} does not exist; set EAGLE_ASSETS_DATASETS") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigurationError(f"datasets file {path} cannot be read: {reason}") from None
    return _configuration(text, path, path.resolve().parent)


@lru_cache(maxsize=1)
def _configuration(text: str, path: Path, folder: Path) -> Configuration:
    """Kept, because a run asks for it again and again, each time as it is then."""
    try:
        raw = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ConfigurationError(f"datasets file {path} cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(raw, dict) or not raw.get("datasets"):
        raise ConfigurationError(
            f"datasets file {path} names no datasets: write `datasets: {{B3: {{source: …}}}}` into it"
        )
    try:
        configuration = Configuration.model_validate(raw)
    except ValidationError as error:
        raise ConfigurationError(f"datasets file {path}: {problems_in_words(error)}") from None
    datasets = {
        name: dataset.model_copy(
            update={"responses": folder / dataset.responses}
            if isinstance(dataset, LocalDataset)
            else {"prompts": folder / dataset.prompts}
        )
        for name, dataset in configuration.datasets.items()
    }
    judge = configuration.judge
    if isinstance(judge, LocalJudge):
        judge = judge.model_copy(update={"folder": folder / judge.folder})
    return configuration.model_copy(update={"datasets": datasets, "judge": judge})
