"""Tests of the scripts in tools/: each runs in a small tree of its own, made for the case."""
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"


class Tree(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        (self.root / "tools").mkdir()
        subprocess.run(["git", "init", "-q", self.root], check=True)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def run_tool(self, name, *arguments):
        shutil.copy(TOOLS / name, self.root / "tools" / name)
        return subprocess.run([sys.executable, self.root / "tools" / name, *arguments], text=True, cwd=self.root,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def assert_clean(self, done):
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def assert_finds(self, done, *texts):
        self.assertEqual(done.returncode, 1, done.stdout)
        for text in texts:
            self.assertIn(text, done.stdout)


class Links(Tree):
    def setUp(self):
        super().setUp()
        self.write("src/a.cpp", "int one;\nint two;\nint three;\n")

    def check(self, text):
        self.write("docs/page.md", text)
        return self.run_tool("check-links")

    def test_good_links_pass(self):
        self.assert_clean(self.check(
            "# A page: `x` and more\n[a](../src/a.cpp) [`two`](../src/a.cpp) [b](#a-page-x-and-more) `src/a.cpp` "
            "[far](https://example.org/x) `src/<layer>/x` `src/*.cpp`\n```\n[no](link)\n```\n"))

    def test_missing_files_and_headings_are_found(self):
        done = self.check("[a](../src/b.cpp) [c](#nothing)\n`src/c.cpp`\n")
        self.assert_finds(done, "docs/page.md:1: link to ../src/b.cpp", "no such heading", "docs/page.md:2: `src/c.cpp`")

    def test_a_link_out_of_the_tree_is_found(self):
        self.assert_finds(self.check("[a](../../)\n"), "no such file in the tree")

    def test_a_name_that_left_its_file_is_found(self):
        self.assert_finds(self.check("[`fourfold::four()`](../src/a.cpp)\n"), "'four' is not in that file")

    def test_a_link_to_a_line_is_found(self):
        self.assert_finds(self.check("[`two`](../src/a.cpp#L2)\n"), "leave the anchor out")


class Receipts(Tree):
    def setUp(self):
        super().setUp()
        self.write("include/fourfold/x.hpp", "x")
        self.write("src/cpu/a.cpp", "a")
        source_hash = self.run_tool("receipts", "--hash", "src/cpu/**").stdout.strip()
        self.receipt = {
            "id": "decode-0001", "command": "c", "source_hash": source_hash, "sources": ["src/cpu/**"],
            "compiler": "g++", "machine": "small", "clocks": "?", "shape": "s", "n": 5, "median": 1.5, "spread": 0.1,
            "unit": "t/s", "share_of_ceiling": 0.9, "binds": "memory", "predicted": "2", "date": "2026-01-01",
            "notes": "",
        }

    def store(self, **changes):
        receipt = {k: v for k, v in {**self.receipt, **changes}.items() if v != "gone"}
        self.write("lab/results/small/decode-0001.json", json.dumps(receipt))

    def test_a_good_receipt_passes_and_is_fresh(self):
        self.store()
        self.write("README.md", "fast [decode-0001]\n")
        self.assert_clean(self.run_tool("receipts", "--check"))
        self.assert_clean(self.run_tool("receipts", "--stale"))
        self.assertIn("1.5 t/s", self.run_tool("receipts", "--list").stdout)

    def test_a_changed_source_or_header_makes_it_stale(self):
        self.store()
        for path in ("src/cpu/a.cpp", "include/fourfold/x.hpp"):
            before = (self.root / path).read_text()
            self.write(path, "changed")
            self.assertEqual(self.run_tool("receipts", "--stale").stdout, "decode-0001\n")
            self.write(path, before)

    def test_bad_receipts_and_unknown_quotes_are_found(self):
        self.store(n="many", machine="large", unit="gone", colour="red")
        self.write("docs/page.md", "quick [receipt prefill-0002]\n")
        self.assert_finds(self.run_tool("receipts", "--check"), "'n' has the wrong type", "not the folder's name",
                          "'unit' is missing", "unknown field 'colour'", "docs/page.md:1: quotes receipt prefill-0002")


class Lint(Tree):
    def lint(self):
        for name in ("check-links", "receipts"):
            shutil.copy(TOOLS / name, self.root / "tools" / name)
        return self.run_tool("lint").stdout

    def test_findings_name_file_and_line(self):
        self.write("tools/long-files.txt", "")
        self.write("src/formats/a.hpp", '#include "engine/x.hpp"\n')
        self.write("include/fourfold/b.hpp", "#include <nlohmann/json.hpp>\n")
        self.write("src/engine/long.cpp", "\n" * 501)
        self.write("docs/page.md", "see /home/" + "someone/notes\n")
        self.write("tools/broken", "#!/bin/bash\nif\n")
        found = self.lint()
        for text in ("src/formats/a.hpp:1: layer formats includes engine/x.hpp",
                     "include/fourfold/b.hpp:1: a public header includes the third-party nlohmann/json.hpp",
                     "src/formats/a.hpp: no include guard", "src/engine/long.cpp: 501 lines",
                     "docs/page.md:1: a path of one machine", "syntax error"):
            self.assertIn(text, found)

    def test_an_excuse_for_a_short_file_is_found(self):
        self.write("src/engine/long.cpp", "\n")
        self.write("tools/long-files.txt", "src/engine/long.cpp a table\nsrc/gone.cpp gone\n")
        found = self.lint()
        self.assertIn("long.cpp needs no excuse", found)
        self.assertIn("src/gone.cpp is no longer here", found)


class GpuCheck(Tree):
    ROW = {"model_filename": "qwen3-0.6b", "model_type": "qwen3 bf16", "backends": "graph", "n_prompt": 0, "n_gen": 100,
           "n_depth": 128, "type_k": "bf16", "p50_ms": 0.9, "share_of_ceiling": 0.3, "read_ceiling_bytes_per_s": 4.6e12,
           "samples_ns": [91e6, 90e6, 92e6, 90e6, 95e6], "samples_ts": [1100, 1111, 1087, 1111, 1053], "avg_ts": 1092}

    def run_check(self, tests_pass=True):
        """With programs that print what the real ones would."""
        self.write("bin/device_test", f"#!/bin/sh\necho '[  PASSED  ] 9 tests.'\nexit {0 if tests_pass else 1}\n")
        self.write("bin/fourfold", f"#!/bin/sh\n[ $1 != bench ] || echo '{json.dumps(self.ROW)}'\necho done\n")
        for name in ["device_test", "fourfold"]:
            (self.root / "bin" / name).chmod(0o755)
        return self.run_tool("gpu-check", "--binaries", self.root / "bin", "--out", self.root / "out", "--quick")

    def test_figures_become_receipts_in_good_form(self):
        for layer in ["cuda", "program", "models", "engine"]:
            self.write(f"src/{layer}/a.cpp", layer)
        self.write("include/fourfold/x.hpp", "x")
        done = self.run_check()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("1 figures", done.stdout)
        self.assertEqual(self.run_tool("receipts", "--check").returncode, 0)
        for number in ["0001", "0002"]:  # what is there stays
            kept = self.run_tool("gpu-check", "--receipts", "out").stdout
            self.assertIn(f"graph-qwen3-0.6b-bf16-d128-{number}", kept)
        checked = self.run_tool("receipts", "--check")
        self.assertEqual(checked.returncode, 0, checked.stdout)
        receipt = json.loads((self.root / "lab/results/h200/graph-qwen3-0.6b-bf16-d128-0001.json").read_text())
        self.assertEqual((receipt["median"], receipt["unit"], receipt["n"]), (0.91, "ms/token", 5))

    def test_what_fails_is_named(self):
        self.assert_finds(self.run_check(tests_pass=False), "FAILED", "device_test ended with 1")


if __name__ == "__main__":
    unittest.main()
