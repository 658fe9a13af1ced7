#!/usr/bin/env python3
"""Makes the seed inputs of fuzz_session: whole files of the little program in it, and some that are refused late."""
import struct
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus/session"
MASK = (1 << 64) - 1
# (bytes of a row, window) of each cache, and the running states' numbers
CACHES, STATES = [(8, 5), (8, 0)], 6
OWNER = ("fuzz, vocabulary 50, weights {:016x}\n"
         "1 x cache 1 x 2 f16, 8 bytes a position, window 5\n"
         "1 x cache 2 x 1 f16, 8 bytes a position\n"
         "1 x state 1 x 2 x 3 f32\n")


class Checksum:
    """FNV-1a over words of 8 bytes, turned by 23 bits after each; pieces are padded with zeros."""

    def __init__(self):
        self.sum = 0xCBF29CE484222325

    def add(self, data):
        for i in range(0, len(data), 8):
            word = int.from_bytes(data[i:i + 8], "little")
            self.sum = (self.sum ^ word) * 0x100000001B3 & MASK
            self.sum = (self.sum << 23 | self.sum >> 41) & MASK


def pieces_of(ids, owner=None, version=b"02"):
    text = (owner or OWNER.format(Checksum().sum)).encode()
    pieces = [b"f44FSS" + version, struct.pack("<Q", len(text)), text, struct.pack("<Q", len(ids)),
              struct.pack(f"<{len(ids)}i", *ids)]
    for size, window in CACHES:
        first = max(0, len(ids) - window + 1) if window else 0
        for row in range(first, len(ids), 64):
            count = min(64, len(ids) - row)
            pieces.append(bytes((row + i) % 251 for i in range(count * size)))
    return pieces + [struct.pack(f"<{STATES}f", *range(STATES))]


def session(*arguments, **options):
    pieces, total = pieces_of(*arguments, **options), Checksum()
    for piece in pieces:
        total.add(piece)
    return b"".join(pieces) + struct.pack("<Q", total.sum)


def main():
    short = session([1, 2, 3])
    seeds = {
        "empty": session([]),
        "short": short,
        "long": session([i % 50 for i in range(150)]),
        "full": session([7] * 300),
        "too-long": session([7] * 301),
        "foreign-id": session([1, 50, -1]),
        "later": session([1], version=b"03"),
        "other-model": session([1], owner="other, vocabulary 50, weights 0\n"),
        "damaged": short[:-9] + b"\1" + short[-8:],
        "cut": short[:-20],
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, data in seeds.items():
        (FOLDER / name).write_bytes(data)


if __name__ == "__main__":
    main()
