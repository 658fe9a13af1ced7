"""Reads .npy and .safetensors files with the standard library alone, and writes small GGUF files."""
import array
import ast
import json
import math
import pathlib
import struct
import sys

TYPES = {"F32": "f", "I64": "q"}


def little(code, data):
    values = array.array(code, data)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def read_npy(path):
    """(rows, columns), numbers"""
    data = pathlib.Path(path).read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    size = struct.unpack("<H", data[8:10])[0]
    assert (10 + size) % 64 == 0
    header = ast.literal_eval(data[10:10 + size].decode())
    assert header["descr"] == "<f4" and header["fortran_order"] is False, header
    values = little("f", data[10 + size:])
    assert len(values) == math.prod(header["shape"]), header
    return header["shape"], values


def read_safetensors(path):
    """name -> (shape, numbers)"""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    found = {}
    for name, row in header.items():
        if name != "__metadata__" and row["dtype"] in TYPES:
            begin, end = (8 + size + offset for offset in row["data_offsets"])
            found[name] = (row["shape"], little(TYPES[row["dtype"]], data[begin:end]))
    return found


def relative_rms(got, expected):
    error = sum((a - b) ** 2 for a, b in zip(got, expected))
    return math.sqrt(error / sum(b * b for b in expected))


def gguf_text(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(value):
    """The type's number and the bytes of a bool, an int, a text, or a list of one of these."""
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, int):
        return 4, struct.pack("<I", value)
    if isinstance(value, (str, bytes)):
        return 8, gguf_text(value)
    kind = gguf_value(value[0])[0]
    return 9, struct.pack("<IQ", kind, len(value)) + b"".join(gguf_value(item)[1] for item in value)


def write_gguf(path, metadata):
    """A GGUF file of metadata alone."""
    with open(path, "wb") as out:
        out.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(metadata)))
        for key, value in metadata.items():
            kind, data = gguf_value(value)
            out.write(gguf_text(key) + struct.pack("<I", kind) + data)
