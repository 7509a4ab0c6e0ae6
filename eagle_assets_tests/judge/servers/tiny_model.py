"""A tiny random Llama with the target's ids in FOLDER, a tokenizer to which each id is a word of its own, and what
transformers itself says of questions, as JSON lines.

Run with the server's own Python: tiny_model.py FOLDER QUESTIONS, the questions being a JSON list of pairs
[prompt ids, output ids].
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

IDS = 163_840


def main(folder: Path, questions: list[tuple[list[int], list[int]]]) -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=IDS,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        initializer_range=0.5,
        bos_token_id=163_584,
        eos_token_id=163_586,
    )
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    with torch.inference_mode():
        for prompt, output in questions:
            logprobs = torch.log_softmax(model(torch.tensor([[*prompt, *output]])).logits[0].float(), -1)
            places = range(len(prompt), len(prompt) + len(output))
            tokens = [logprobs[place - 1, token].item() for place, token in zip(places, output, strict=True) if place]
            top = [logprobs[place - 1].topk(8).values.tolist() for place in places if place]
            print(json.dumps({"tokens": tokens, "top": top}))


def tokenizer() -> PreTrainedTokenizerFast:
    """`w5 w6` is [5, 6], and a chat is its messages' words."""
    words = Tokenizer(WordLevel({f"w{token}": token for token in range(IDS)}, unk_token="w0"))
    words.pre_tokenizer = WhitespaceSplit()
    template = "{% for message in messages %}{{ message.content }} {% endfor %}"
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0", chat_template=template)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
