"""What is wrong in a datasets file is said in a sentence that names the place and what is meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from eagle_assets.cli import main
from eagle_assets.configuration import ConfigurationError, Settings, load_configuration, revealed

BOUGHT = "datasets: {B3: {source: openrouter, prompts: p.jsonl%s}}\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "names no datasets: write"),
        ("hello", "names no datasets: write"),
        ("datasets: {}", "names no datasets: write"),
        ("dataset: {B3: {source: local, responses: r.jsonl}}", "names no datasets: write"),
        ("[1,\n2", "cannot be read: while parsing a flow sequence"),
        (BOUGHT % ", max_token: 5", "datasets.B3.max_token is no key that is known here; is `max_tokens` meant?"),
        (BOUGHT % "" + "budgetusd: 5", "budgetusd is no key that is known here; is `budget_usd` meant?"),
        (BOUGHT % ", xyzzy: 5", "datasets.B3.xyzzy is no key that is known here"),
        (
            BOUGHT.replace("openrouter", "openroutr") % "",
            "datasets.B3.source is 'openroutr', not 'openrouter', 'local'",
        ),
        (
            "datasets: {server: {source: server, base_url: 'http://g/v1', prompts: p.jsonl, budget_usd: 3}}",
            "datasets.server.budget_usd is no key that is known here",
        ),
        (BOUGHT.replace("B3", "B" * 101) % "", "is longer than 100 letters"),
        (BOUGHT % ", max_tokens: 99999999999999999999", "datasets.B3.max_tokens has to be less than or equal"),
        (BOUGHT % "" + "routing: {only: [Fireworks]}", "`only` names nobody but Fireworks, and that is excluded"),
        (
            BOUGHT % "" + "exports: {a: {format: specforge, weights: {B3: -1}}}",
            "exports.a.weights.B3 has to be greater than 0",
        ),
        (BOUGHT % "" + "exports: {a: {format: specforge, cut: true}}", "exports.a: `cut` needs a `max_length`"),
        (BOUGHT % ", max_tokens: -1", "datasets.B3.max_tokens has to be greater than 0"),
        (BOUGHT % ', cron: "every day"', "datasets.B3.cron: 'every day' is no time: minute, hour, day, month"),
        (BOUGHT % ', cron: "0 25 * * *"', "datasets.B3.cron: '0 25 * * *' is no time"),
        (BOUGHT % ', cron: "0 */0 * * *"', "datasets.B3.cron: '0 */0 * * *' is no time"),
        (BOUGHT % ', cron: "0 0 * * foo"', "datasets.B3.cron: '0 0 * * foo' is no time"),
        (BOUGHT % ', cron: "0 0 * * feb"', "datasets.B3.cron: '0 0 * * feb' is no time"),
        (BOUGHT % ', cron: "0 0 31 2 *"', "datasets.B3.cron: '0 0 31 2 *' is no time"),
        (BOUGHT % ', cron: "0 0 30 feb *"', "datasets.B3.cron: '0 0 30 feb *' is no time"),
        (BOUGHT % ', cron: "5-1 * * * *"', "datasets.B3.cron: '5-1 * * * *' is no time"),
        (BOUGHT % "" + "routing: {only: []}", "routing.only has to name one at least"),
        (BOUGHT % "" + "judge: {kind: vllm, base_url: 'http://gpu:port/v1'}", "'http://gpu:port/v1' is no address"),
        (
            "datasets: {B2: {source: server, base_url: gpu:8000/v1, prompts: p.jsonl}}",
            "datasets.B2.base_url: 'gpu:8000/v1' is no address of a server: write it like 'http://",
        ),
        (
            BOUGHT % "" + "judge: {kind: vllm, base_url: localhost}",
            "judge.vllm.base_url: 'localhost' is no address of a server",
        ),
        (BOUGHT % "" + "budget_usd: yes", "`budget_usd` is neither true nor false; YAML reads yes"),
        (BOUGHT % ", max_tokens: true", "datasets.B3: `max_tokens` is neither true nor false"),
        (BOUGHT % ", max_tokens: many", "datasets.B3.max_tokens has to be a whole number"),
        (BOUGHT % "" + "budget_usd: [1]", "budget_usd has to be a number"),
        (BOUGHT % "" + "budget_usd: .inf", "budget_usd has to be a finite number"),
        (BOUGHT % "" + "target: 5", "target has to be text, in quotes where it looks like a number"),
        (BOUGHT % "" + "routing: {ignore: a}", "routing.ignore has to be a list, as in [B3, B4]"),
        (BOUGHT % "" + "routing: {allow_fallbacks: maybe}", "routing.allow_fallbacks has to be true or false"),
        (BOUGHT % "" + "judge: {}", "judge lacks its `kind`"),
        (BOUGHT % "" + "exports: {a: {format: x}}", "exports.a.format has to be 'speculators', 'specforge' or"),
        (BOUGHT.replace("p.jsonl", "''") % "", "datasets.B3.prompts: it is blank; name a file"),
        (BOUGHT.replace("p.jsonl", "[a]") % "", "datasets.B3.prompts has to be the name of a file"),
        ("datasets: {B3: {source: openrouter}}", "datasets.B3.prompts is missing"),
        ("datasets: {B3: {prompts: p.jsonl}}", "datasets.B3 lacks its `source`"),
        ("datasets: [B3]", "datasets has to hold keys with values, as in {key: value}"),
        (BOUGHT.replace("B3", "5") % "", "datasets.5, a name, has to be text"),
        (BOUGHT.replace("B3", "probes") % "", "dataset name 'probes' is taken"),
        (BOUGHT.replace("B3", "\u00e9") % "", "dataset name '\u00e9' may hold letters of ASCII"),
        (
            "datasets: {B_3: {source: local, responses: r.jsonl}, B-3: {source: local, responses: r.jsonl}}",
            "dataset names 'B_3' and 'B-3' differ in '-' and '_' only",
        ),
        (BOUGHT.replace("B3", "all") % "", "dataset name 'all' is taken"),
        (BOUGHT % ", budget_usd: .inf", "datasets.B3.budget_usd has to be a finite number"),
        (BOUGHT % ", budget_usd_per_tick: .inf", "datasets.B3.budget_usd_per_tick has to be a finite number"),
        (
            BOUGHT % "" + "routing: {max_price: {completions: 3}}",
            "completions is no key that is known here; is `completion`",
        ),
        (
            BOUGHT % "" + "routing: {max_price: {completion: -3}}",
            "routing.max_price.completion has to be greater than or equal to 0",
        ),
        (BOUGHT % "" + "routing: {only: [fireworks]}", "routing: `only` names nobody but fireworks"),
        (
            BOUGHT % "" + "exports: {a: {format: specforge, datasets: [B9]}}",
            "exports.a names 'B9', which is no dataset",
        ),
        (BOUGHT % "" + "budget_usd: 5\nbudget_usd: 6", "'budget_usd' stands there twice"),
        ('datasets: {"B 3": {source: local, responses: r.jsonl}}', "dataset name 'B 3' may hold letters of ASCII"),
    ],
)
def test_mistakes_are_named_with_what_is_meant(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "datasets.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        load_configuration(path)
    assert complaint in str(raised.value)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "cron",
    [
        "* * * * *",
        "0 3 * * *",
        "*/10 0-5,22 1 jan-mar mon",
        "5 4-20/2 31 12 7",
        "@daily",
        "0 0 29 2 *",
        "0 0 31 2 mon",
        "05 07 * * 0-7",
    ],
)
def test_times_of_a_schedule(tmp_path: Path, cron: str) -> None:
    path = tmp_path / "datasets.yaml"
    path.write_text(BOUGHT % f', cron: "{cron}"')
    assert load_configuration(path).bought["B3"].cron == cron


def test_what_datasets_have_in_common_may_stand_in_one_place(tmp_path: Path) -> None:
    path = tmp_path / "datasets.yaml"
    path.write_text(
        "datasets:\n  A: &common {source: openrouter, prompts: a, max_tokens: 7}\n  B: {<<: *common, prompts: b}\n"
    )
    b = load_configuration(path).bought["B"]
    assert (b.max_tokens, b.prompts) == (7, tmp_path / "b")


def test_a_folder_is_no_datasets_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        load_configuration(tmp_path)


@pytest.mark.parametrize(
    ("env_file", "complaint"),
    [
        (b"OPENROUTER_API_KEY=\xff\xfe", "the file .env is no text in UTF-8"),
        (
            "OPENROUTER_API_KEY=schl\u00fcssel".encode(),
            "OPENROUTER_API_KEY: a key has neither blanks nor letters beyond",
        ),
        (b"EAGLE_ASSETS_JUDGE_KEY=sk-one two", "EAGLE_ASSETS_JUDGE_KEY: a key has neither blanks"),
        (b"OPENROUTER_BASE_URL=localhost:80", "OPENROUTER_BASE_URL: 'localhost:80' is no address of a server"),
    ],
)
def test_mistakes_in_the_environment_are_one_sentence_without_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env_file: bytes, complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_bytes(env_file + b"\n")
    with pytest.raises(ConfigurationError) as raised:
        Settings()
    assert str(raised.value).startswith(complaint)
    assert "schl" not in str(raised.value)
    done = CliRunner().invoke(main, ["budget"])
    assert (done.exit_code, done.output) == (1, f"Error: {raised.value}\n")


def test_a_key_has_no_blanks_round_it_and_may_be_left_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENROUTER_API_KEY", "  sk-or-v1-abc\n")
    monkeypatch.setenv("EAGLE_ASSETS_JUDGE_KEY", " ")
    assert revealed(Settings().api_key) == "sk-or-v1-abc"
    assert Settings().judge_key is None
