#!/usr/bin/env python3
"""Makes the seed inputs of fuzz_gguf, fuzz_safetensors and fuzz_json: small files of every shape the readers know."""
import json
import struct
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, content):
    if kind == 8:
        return text(content)
    return struct.pack("<" + SCALARS[kind], content)


def key(name, kind, content):
    if isinstance(content, list):
        items = b"".join(value(kind, item) for item in content)
        return text(name) + struct.pack("<IIQ", 9, kind, len(content)) + items
    return text(name) + struct.pack("<I", kind) + value(kind, content)


def tensor(name, dims, kind, offset):
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def gguf(keys=(), tensors=(), data=b"", version=3, alignment=32):
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys)) + b"".join(keys) + b"".join(tensors)
    return head + (b"\0" * (-len(head) % alignment) + data if data else b"")


def safetensors(header, data=b""):
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + data


def gguf_seeds():
    scalars = [key(f"k{kind}", kind, 1) for kind in SCALARS] + [key("k8", 8, "text")]
    arrays = [key(f"a{kind}", kind, [1, 0]) for kind in SCALARS] + [key("a8", 8, ["", "word"]), key("empty", 5, [])]
    architecture = key("general.architecture", 8, "llama")
    return {
        "empty": gguf(),
        "version2": gguf([architecture], version=2),
        "scalars": gguf(scalars),
        "arrays": gguf(arrays),
        "alignment": gguf([key("general.alignment", 4, 8)], [tensor("w", [4], 0, 8)], b"x" * 24, alignment=8),
        "tensors": gguf([architecture], [tensor("a", [32, 2], 8, 0), tensor("b", [3], 0, 96)], b"y" * 108),
        "unknown": gguf([], [tensor("w", [2, 3, 4, 5], 99, 0)], b"z"),
        "shard": gguf([key("split.no", 2, 0), key("split.count", 2, 2), key("split.tensors.count", 5, 2)]),
    }


def safetensors_seeds():
    one = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    two = {"dtype": "BF16", "shape": [1, 3], "data_offsets": [8, 14]}
    return {
        "empty": safetensors({}),
        "one": safetensors({"w": one}, b"12345678"),
        "two": safetensors({"b": two, "a": one, "__metadata__": {"format": "pt"}}, b"x" * 14),
        "scalar": safetensors({"s": {"dtype": "U8", "shape": [], "data_offsets": [0, 1]}}, b"x"),
        "padded": safetensors(b'{"w":{"dtype":"F16","shape":[0],"data_offsets":[0,0]}}   '),
        "unknown": safetensors({"w": {"dtype": "F4", "shape": [3], "data_offsets": [0, 2]}}, b"xx"),
    }


def json_seeds():
    return {
        "config": b'{"model_type": "llama", "rope_scaling": {"factor": 8.0, "type": null}, "eos": [1, 2], "tie": true}',
        "floats": b'{"a": NaN, "b": [-Infinity, 1], "c": {"__float__": "Infinity"}, "d": -1.5e-3}',
        "arrays": b'{"l": ["x", "y"], "m": [1, "a", {"b": [null]}], "n": [[1], []], "o": [true, false], "p": []}',
        "escapes": b'{"\\u00e9\\"": "\\ud83e\\udd99\\n", "": {"": 18446744073709551615}}',
    }


def main():
    for name, seeds in {"gguf": gguf_seeds(), "safetensors": safetensors_seeds(), "json": json_seeds()}.items():
        (CORPUS / name).mkdir(parents=True, exist_ok=True)
        for seed, data in seeds.items():
            (CORPUS / name / seed).write_bytes(data)


if __name__ == "__main__":
    main()
