#!/usr/bin/env python3
"""Times Transformers' chunked delta rules on torch as bench/scan_bench.cpp times ours: 4096 tokens, 16 heads of 128,
float32, all processors. One line of JSON a mechanism: seconds of each round."""
import json
import sys
import time

import torch
from transformers.models.kimi_linear.modeling_kimi_linear import chunk_kimi_delta_attention
from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule

TOKENS, HEADS, DIM, ROUNDS = 4096, 16, 128, int(sys.argv[1]) if len(sys.argv) > 1 else 3


def plain(function):
    """Behind the decorator that looks for kernels of other packages."""
    return getattr(function, "__wrapped__", function)


def seconds_of(function, per_key):
    q, k, v = (torch.randn(1, TOKENS, HEADS, DIM) for _ in range(3))
    k = torch.nn.functional.normalize(k, dim=-1)
    g = torch.full((1, TOKENS, HEADS, DIM) if per_key else (1, TOKENS, HEADS), -0.02)
    beta = torch.full((1, TOKENS, HEADS), 0.5)
    times = []
    with torch.inference_mode():
        for _ in range(ROUNDS + 1):
            start = time.perf_counter()
            plain(function)(q, k, v, g, beta, output_final_state=True)
            times.append(time.perf_counter() - start)
    return times[1:]


def main():
    torch.manual_seed(7)
    for name, function, per_key in [("gated_delta_net", torch_chunk_gated_delta_rule, False),
                                    ("kimi_delta", chunk_kimi_delta_attention, True)]:
        print(json.dumps({"mechanism": name, "threads": torch.get_num_threads(), "torch": torch.__version__,
                          "seconds": seconds_of(function, per_key)}), flush=True)


if __name__ == "__main__":
    main()
