#!/usr/bin/env python3
"""Makes the seed inputs of fuzz_jinja from the cases of tests/data: a few templates that together hold every word."""
import hashlib
import json
import re
from pathlib import Path

HERE = Path(__file__).parent
MESSAGES = '[{"role": "system", "content": "S"}, {"role": "user", "content": [{"type": "text", "text": "t"}]}]'


def words(template):
    return set(re.findall(r"[a-z_]{2,}|[^\w\s]{1,2}", template))


def cover(templates):
    left = set().union(*map(words, templates))
    for template in sorted(templates, key=lambda t: (len(t) / (1 + len(words(t))), t)):
        if words(template) & left:
            left -= words(template)
            yield template


def batches(templates, size):
    batch = ""
    for template in templates:
        if len(batch) + len(template) > size:
            yield batch
            batch = ""
        batch += template + "\n"
    yield batch


def write(folder, text):
    (folder / hashlib.sha256(text.encode()).hexdigest()[:12]).write_text(text)


if __name__ == "__main__":
    cases = json.loads((HERE.parent / "data/jinja_cases.json").read_text())
    folder = HERE / "corpus/jinja"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    good = cover(sorted({case["template"] for case in cases if "output" in case and len(case["template"]) < 300}))
    bad = cover(sorted({case["template"] for case in cases if "error" in case and len(case["template"]) < 100}))
    for text in [*batches(good, 400), *list(bad)[::4]]:
        write(folder, text)
    for path in sorted((HERE.parent / "data/chat_templates").iterdir()):
        write(folder, path.read_text() + "\0" + MESSAGES)
    print(f"{len(list(folder.iterdir()))} seeds")
