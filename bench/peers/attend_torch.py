#!/usr/bin/env python3
"""Times torch's attention at batch 1 as bench/cuda/attend_bench times ours: 32 query and 8 KV heads of 128, bf16, one
launch per cache in a graph, as many caches as exceed four times the L2. One line of JSON a case."""
import json

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

HEADS, KV_HEADS, DIM, ENOUGH = 32, 8, 128, 240e6


def median(values):
    return sorted(values)[len(values) // 2]


def timed(run, rounds, warm):
    times = []
    for i in range(rounds + warm):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        if i >= warm:
            times.append(begin.elapsed_time(end) * 1e3)
    return median(times)


def decode(context, backend):
    bytes_each = 2 * 2 * KV_HEADS * DIM * context
    caches = max(2, int(ENOUGH / bytes_each) + 1)
    keys = [torch.randn(1, KV_HEADS, context, DIM, device="cuda", dtype=torch.bfloat16) for _ in range(caches)]
    values = [torch.randn_like(k) for k in keys]
    query = torch.randn(1, HEADS, 1, DIM, device="cuda", dtype=torch.bfloat16)
    attend = torch.nn.functional.scaled_dot_product_attention
    with sdpa_kernel(backend):
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                attend(query, keys[0], values[0], enable_gqa=True)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outs = [attend(query, k, v, enable_gqa=True) for k, v in zip(keys, values)]
    us = timed(graph.replay, 20, 5) / caches
    del outs
    return us


def prefill(tokens, backend):
    query = torch.randn(1, HEADS, tokens, DIM, device="cuda", dtype=torch.bfloat16)
    keys = torch.randn(1, KV_HEADS, tokens, DIM, device="cuda", dtype=torch.bfloat16)
    values = torch.randn_like(keys)
    attend = torch.nn.functional.scaled_dot_product_attention
    with sdpa_kernel(backend):
        us = timed(lambda: attend(query, keys, values, is_causal=True, enable_gqa=True), 10, 3)
    return us, 2 * HEADS * DIM * tokens * tokens / us * 1e-6


def main():
    for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
        for context in (1024, 4096, 16384, 65536):
            try:
                print(json.dumps({"peer": name, "context": context, "us": round(decode(context, backend), 2)}), flush=True)
            except RuntimeError as error:
                print(json.dumps({"peer": name, "context": context, "error": str(error)[:120]}), flush=True)
        for tokens in (512, 4096, 16384):
            try:
                us, tflops = prefill(tokens, backend)
                print(json.dumps({"peer": name, "tokens": tokens, "us": round(us, 1), "tflops": round(tflops)}), flush=True)
            except RuntimeError as error:
                print(json.dumps({"peer": name, "tokens": tokens, "error": str(error)[:120]}), flush=True)


main()
