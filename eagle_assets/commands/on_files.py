"""Commands on files of recorded exchanges, of whoever recorded them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from eagle_assets.commands.group import configuration, fail, home, require_outputs


class _ExchangesFile(click.Path):
    """A file of exchanges: a regular one, as it is read more than once."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(str(super().convert(value, param, ctx)))
        if not path.is_file():
            self.fail(f"{path} is no regular file, and is read more than once: write it into a file first", param, ctx)
        return path


EXCHANGES = _ExchangesFile(exists=True, dir_okay=False)


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="IN...", type=EXCHANGES)
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Where verdicts go."
)
@click.option(
    "--calibration",
    "calibration_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Use this calibration instead of learning one from the input.",
)
@click.option("--save-calibration", type=click.Path(dir_okay=False, path_type=Path), help="Keep what was learnt.")
def reconstruct(
    files: tuple[Path, ...], output: Path, calibration_file: Path | None, save_calibration: Path | None
) -> None:
    """Turn recorded exchanges back into token ids, with a verdict for each line, in order.

    \b
    IN holds a JSON object a line: exchange_id, model, provider, status, request, body (raw text of the response).
    Examples:
      eagle-assets reconstruct recorded.jsonl -o verdicts.jsonl
      eagle-assets reconstruct monday.jsonl -o verdicts.jsonl --calibration last_week.json
    """
    from eagle_assets.reconstruction.console.command import reconstruct_files
    from eagle_assets.reconstruction.files.errors import CalibrationError

    require_outputs([output, save_calibration], [*files, calibration_file])
    try:
        reconstruct_files(files, output, calibration_file, save_calibration)
    except CalibrationError as error:
        fail(str(error))


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="IN...", type=EXCHANGES)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Where the calibration goes.")
@click.option("--explain", "provider", metavar="PROVIDER", help="Which exchanges refuted what, and what is left over.")
@click.option(
    "--judged",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A calibration that `judge --save-calibration` kept: what the target decided holds here too.",
)
@click.option("--json", "as_json", is_flag=True, help="For programs: a JSON list of objects.")
def calibrate(
    files: tuple[Path, ...], output: Path | None, provider: str | None, judged: Path | None, as_json: bool
) -> None:
    """Learn from recorded exchanges how each provider serves and counts, and show what is settled and what is open.

    \b
    Examples:
      eagle-assets calibrate monday.jsonl tuesday.jsonl -o calibration.json
      eagle-assets calibrate monday.jsonl --explain "Moonshot AI"
      eagle-assets calibrate monday.jsonl --explain "Moonshot AI" --judged settled.json
    """
    from eagle_assets.reconstruction.console.calibrate_command import NothingToShow, calibrate_files
    from eagle_assets.reconstruction.files.errors import CalibrationError

    require_outputs([output], [*files, judged])
    try:
        calibrate_files(files, output, provider, as_json, judged)
    except (NothingToShow, CalibrationError) as error:
        fail(str(error))


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="IN...", type=EXCHANGES)
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Where verdicts go."
)
@click.option("--sglang", metavar="URL", help="An SGLang server that serves the target model.")
@click.option("--vllm", metavar="URL", help="A vLLM server that does.")
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder with the model, for transformers and torch.",
)
@click.option("--model", metavar="NAME", help="How the vLLM server calls it; by default its first model.")
@click.option("--concurrency", type=click.IntRange(1), default=16, show_default=True, help="Questions in flight.")
@click.option(
    "--calibration",
    "calibration_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Use this calibration as it is, instead of learning one and settling it.",
)
@click.option("--save-calibration", type=click.Path(dir_okay=False, path_type=Path), help="Keep what was settled.")
def judge(
    files: tuple[Path, ...],
    output: Path,
    sglang: str | None,
    vllm: str | None,
    folder: Path | None,
    model: str | None,
    concurrency: int,
    calibration_file: Path | None,
    save_calibration: Path | None,
) -> None:
    """Reconstruct recorded exchanges, and put what is open and what is trusted before the target model itself.

    Without a server or a folder it takes the `judge` of the datasets file. What the target once said is kept in the
    home, and not asked again.

    \b
    Examples:
      eagle-assets judge recorded.jsonl -o verdicts.jsonl --sglang http://127.0.0.1:30000
      eagle-assets judge monday.jsonl -o verdicts.jsonl --vllm http://127.0.0.1:8000 --save-calibration settled.json
    """
    from eagle_assets.configuration import ConfigurationError, Settings, revealed
    from eagle_assets.judge.bench import Bench
    from eagle_assets.judge.command import judge_files
    from eagle_assets.judge.opening import judge_named, opened
    from eagle_assets.judge.questions import JudgeBusy, JudgeError
    from eagle_assets.openrouter.record_file import JournalError
    from eagle_assets.reconstruction.files.errors import CalibrationError
    from eagle_assets.targets.kimi import target_named

    require_outputs([output, save_calibration], [*files, calibration_file])
    try:
        configured = configuration()
        chosen = judge_named(sglang, vllm, folder, model) or configured.judge
        if chosen is None:
            fail("there is no judge: name one with --sglang URL, --vllm URL or --folder DIR, or in the datasets file")
        key = revealed(Settings().judge_key)
        bench = Bench(opened(chosen, concurrency, key), home().root / "judge", concurrency)
        target = target_named(configured.target)
        limit = configured.max_residual_error
        judge_files(files, output, bench, target, calibration_file, save_calibration, limit)
    except (CalibrationError, ConfigurationError, JudgeBusy, JudgeError, JournalError) as error:
        fail(str(error))


@click.command()
@click.argument("exchange_id")
@click.option(
    "--file",
    type=EXCHANGES,
    help="Look in this file of exchanges, not in what the pipeline made.",
)
@click.option("--ids", "with_ids", is_flag=True, help="With the id of each token.")
def show(exchange_id: str, file: Path | None, with_ids: bool) -> None:
    """Show one response: its tokens, where the candidates differ, the evidence, and the verdict with its reasons.

    \b
    Examples:
      eagle-assets show gen-1733090000-abc
      eagle-assets show gen-1733090000-abc --file monday.jsonl --ids
    """
    from rich.console import Console

    from eagle_assets.configuration import ConfigurationError
    from eagle_assets.reconstruction.console.show_command import show as print_as_shown
    from eagle_assets.reconstruction.console.shown import NotFound, find_in_file, find_in_home

    try:
        if file is not None:
            shown = find_in_file(exchange_id, file)
        else:
            shown = find_in_home(exchange_id, home(), configuration().verdict_stage)
    except (ConfigurationError, NotFound) as error:
        fail(str(error))
    print_as_shown(shown, with_ids, Console(width=None if sys.stdout.isatty() else 120))
