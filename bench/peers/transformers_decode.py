#!/usr/bin/env python3
"""Times a token of transformers at batch 1: an 8B-shaped Llama with random bf16 weights, static cache, its forward
compiled with CUDA graphs. usage: transformers_decode.py [CONTEXT ...]; default 128 4096. One line of JSON a context.

Each round begins with an empty cache and a prompt, since a static cache counts on by itself.
"""
import inspect
import json
import statistics
import sys
import time

import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

TOKENS, ROUNDS = 50, 5


def make_model():
    config = LlamaConfig(vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
                         num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=131072,
                         rope_theta=500000.0, attn_implementation="sdpa")
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        return LlamaForCausalLM(config).eval()


def make_cache(model, length):
    known = inspect.signature(StaticCache.__init__).parameters
    asked = {"config": model.config, "max_cache_len": length, "max_batch_size": 1, "batch_size": 1, "device": "cuda",
             "dtype": torch.bfloat16}
    return StaticCache(**{name: value for name, value in asked.items() if name in known})


def forward(model, call, ids, cache, position):
    where = {}
    if "cache_position" in inspect.signature(model.forward).parameters:
        where["cache_position"] = position
    return call(input_ids=ids, past_key_values=cache, use_cache=True, **where).logits[:, -1:].argmax(-1)


@torch.inference_mode()
def measure(model, context):
    compiled = torch.compile(model.forward, mode="reduce-overhead", fullgraph=True)
    cache = make_cache(model, context + TOKENS)
    times = []
    started = time.time()
    for turn in range(ROUNDS + 2):  # the first two compile and record
        cache.reset()
        prompt = torch.randint(0, 128256, (1, context), device="cuda")
        token = forward(model, model.forward, prompt, cache, torch.arange(context, device="cuda"))
        position = torch.tensor([context], device="cuda")
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(TOKENS if turn > 1 else 3):
            torch.compiler.cudagraph_mark_step_begin()
            token = forward(model, compiled, token.clone(), cache, position).clone()
            position += 1
        end.record()
        end.synchronize()
        if turn > 1:
            times.append(begin.elapsed_time(end) / TOKENS)
        elif turn == 0:
            print(f"compiled in {time.time() - started:.0f} s", file=sys.stderr)
    return times


def main():
    model = make_model()
    for context in [int(c) for c in sys.argv[1:]] or [128, 4096]:
        times = measure(model, context)
        print(json.dumps({"peer": "transformers " + transformers.__version__, "torch": torch.__version__,
                          "context": context, "ms_per_token": round(statistics.median(times), 4),
                          "spread": round(max(times) - min(times), 4)}), flush=True)


if __name__ == "__main__":
    main()
