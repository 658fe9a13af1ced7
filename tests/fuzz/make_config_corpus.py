#!/usr/bin/env python3
"""Makes the seed inputs of fuzz_config: the config.json of every tiny model, one of each kind of model."""
import json
from pathlib import Path

HERE = Path(__file__).parent
CORPUS = HERE / "corpus" / "config"


def main():
    CORPUS.mkdir(parents=True, exist_ok=True)
    for path in sorted(HERE.parent.glob("data/models/**/config.json")):
        config = json.loads(path.read_text())
        kind = config["model_type"]
        (CORPUS / kind).write_text(json.dumps(config, separators=(",", ":")))


if __name__ == "__main__":
    main()
