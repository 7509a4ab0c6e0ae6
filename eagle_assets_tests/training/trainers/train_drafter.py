"""A tiny target model with random weights, its hidden states for the prepared rows, and the real `speculators train`.

    python train_drafter.py WORK EXPORT DRAFT_SIZE SEQ_LENGTH

WORK holds `target` (this makes its weights) and `prepared` (from `speculators prepare-data`). Two functions are
replaced, which only move tensors to a GPU and wait for one; data set, packing, shift, drafter, loss, optimiser,
validation and checkpoints are the package's own.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from datasets import load_from_disk
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

VOCABULARY_SIZE, LAYERS, STEPS = 163_840, 8, 24


def tiny_target() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY_SIZE,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=65_536,
        initializer_range=0.15,
    )
    return LlamaForCausalLM(config).eval()


def write_hidden_states(target: LlamaForCausalLM, prepared: Path) -> None:
    """File i belongs to row i of the Arrow: the layers that speculators takes, and the last before the final norm."""
    last = []
    target.model.layers[-1].register_forward_hook(lambda _, __, out: last.append(out[0] if type(out) is tuple else out))
    (prepared / "hidden_states").mkdir()
    for number, row in enumerate(load_from_disk(str(prepared))):
        with torch.no_grad():
            states = target.model(row["input_ids"][None], output_hidden_states=True).hidden_states
        taken = torch.stack([states[2][0], states[LAYERS // 2][0], states[LAYERS - 3][0], last.pop()[0]], 1)
        save_file(
            {"token_ids": row["input_ids"].contiguous(), "hidden_states": taken.contiguous()},
            prepared / f"hidden_states/hs_{number}.safetensors",
        )


def train(work: Path, export: Path, draft_size: int, seq_length: int) -> None:
    import speculators.train.trainer as trainer
    from speculators.__main__ import app

    trainer.get_local_rank = lambda: "cpu"
    torch.accelerator.synchronize = lambda *_, **__: None
    sys.argv = [
        "speculators",
        "train",
        *("--verifier-name-or-path", str(work / "target"), "--speculator-type", "eagle3"),
        *("--data-path", str(work / "prepared"), "--save-path", str(work / "draft")),
        *("--draft-vocab-size", str(draft_size)),
        *("--d2t-path", str(export / f"d2t-{draft_size}.npy"), "--t2d-path", str(export / f"t2d-{draft_size}.npy")),
        *("--total-seq-len", str(2 * seq_length), "--mask-token-id", "0", "--on-missing", "raise"),
        *("--hidden-states-dtype", "float32", "--num-workers", "0", "--draft-attn-impl", "sdpa"),
        *("--loss-implementation", "eager", "--ttt-steps", "3", "--optimizer", "adamw", "--scheduler-type", "none"),
        *("--lr", "3e-3", "--epochs", "3", "--max-steps", str(STEPS)),
    ]
    app()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    model = tiny_target()
    model.save_pretrained(folder / "target")
    write_hidden_states(model, folder / "prepared")
    train(folder, Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
