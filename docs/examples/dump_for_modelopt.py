"""From an export to what ModelOpt's offline EAGLE-3 training reads: a .pt file with ids and hidden states for each row.

    python dump_for_modelopt.py EXPORT MODEL DUMP

EXPORT is a folder of `eagle-assets export --format huggingface`, MODEL what `AutoModelForCausalLM` loads, DUMP a new
folder. The ids go in as they are; nothing is rendered or encoded again.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq
import torch
from transformers import AutoModelForCausalLM


@torch.no_grad()
def dump(export: Path, model_folder: str, dump_folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(model_folder).eval()
    layers = model.config.num_hidden_layers
    dump_folder.mkdir()
    for path in sorted(export.glob("dataset=*/train-*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(16):
            for row in batch.to_pylist():
                ids = torch.tensor(row["input_ids"], dtype=torch.int64)
                states = model.model(ids[None].to(model.device), output_hidden_states=True).hidden_states
                aux = torch.cat([states[layer][0] for layer in (2, layers // 2, layers - 3)], dim=-1)
                torch.save(
                    {
                        "input_ids": ids,
                        "loss_mask": torch.tensor(row["loss_mask"], dtype=torch.int64),
                        "hidden_states": states[-1][0].cpu(),  # after the final norm, as ModelOpt expects
                        "aux_hidden_states": aux.cpu(),
                    },
                    dump_folder / f"{row['input_ids_sha256'][:32]}.pt",
                )


if __name__ == "__main__":
    dump(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
