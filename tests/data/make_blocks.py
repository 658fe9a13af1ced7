#!/usr/bin/env python3
"""Makes blocks/STORAGE.bin: blocks that take every code at every position, and what they decode to.

A file holds n blocks, then n 64-bit FNV-1a hashes, one per block, of its decoded float32 values (little-endian). The
values come from the Python package `gguf`, the format's own reference. Usage: pip install gguf; ./make_blocks.py
"""
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize

# The fields of a block in order, (bytes, kind). Over 64 blocks nibbles take each value four times, once with each value
# of the pair or twice with each value of the bit that extends them; over 256 blocks a byte takes every value.
LAYOUTS = {
    "Q4_0": [(2, "scale"), (16, "nibble")],
    "Q4_1": [(2, "scale"), (2, "scale"), (16, "nibble")],
    "Q5_0": [(2, "scale"), (4, "bit"), (16, "nibble")],
    "Q5_1": [(2, "scale"), (2, "scale"), (4, "bit"), (16, "nibble")],
    "Q8_0": [(2, "scale"), (32, "byte")],
    "Q4_K": [(2, "scale"), (2, "scale"), (12, "byte"), (128, "nibble")],
    "Q5_K": [(2, "scale"), (2, "scale"), (12, "byte"), (32, "bit"), (128, "nibble")],
    "Q6_K": [(128, "nibble"), (64, "pair"), (16, "byte"), (2, "scale")],
}
WIDTHS = {"bit": 1, "pair": 2, "nibble": 4, "byte": 8}
# f16: +-0, subnormals (smallest, middle, largest), smallest normal, 1, odd ones, largest.
SCALES = [0x0000, 0x8000, 0x0001, 0x8001, 0x0155, 0x03FF, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x1234, 0xA9C7, 0x7BFF, 0xFBFF]


def field(size, kind, count, rng):
    if kind == "scale":
        picked = np.array([SCALES[i // 2 % len(SCALES)] if i % 2 else rng.integers(0x1000, 0x4000) for i in range(count)])
        return np.roll(picked, rng.integers(0, count)).astype("<u2").view(np.uint8).reshape(count, 2)
    width = WIDTHS[kind]
    step = np.arange(count)[:, None] // (16 if kind in ("bit", "pair") else 1)
    out = np.zeros((count, size), np.int64)
    for shift in range(0, 8, width):
        start, stride = rng.integers(0, 256, size), 1 + 2 * rng.integers(0, 128, size)
        out |= ((start + stride * step) % 2**width) << shift
    return out.astype(np.uint8)


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return value


def main():
    folder = Path(__file__).parent / "blocks"
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(4)
    for name, layout in LAYOUTS.items():
        count = 256 if name == "Q8_0" else 64
        rows = np.concatenate([field(size, kind, count, rng) for size, kind in layout], axis=1)
        rows = np.concatenate([rows, np.zeros_like(rows[:1])])
        values = dequantize(rows, Type[name]).astype("<f4")
        hashes = np.array([fnv1a(row.tobytes()) for row in values], "<u8")
        (folder / f"{name.lower()}.bin").write_bytes(rows.tobytes() + hashes.tobytes())


if __name__ == "__main__":
    main()
