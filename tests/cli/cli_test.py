#!/usr/bin/env python3
"""The command-line program from outside. FOURFOLD: the program; FOURFOLD_TEST_DATA: tests/data."""
import json
import os
import pathlib
import pty
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

import arrays

PROGRAM = os.environ["FOURFOLD"]
DATA = os.environ["FOURFOLD_TEST_DATA"]
LLAMA = DATA + "/models/llama"
GGUF = DATA + "/models/llama.f32.gguf"
FAMILIES = ["llama", "qwen2", "qwen3", "gemma3"]


class Program(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def put(self, name, data):
        pathlib.Path(self.path(name)).write_bytes(data)

    def call(self, *arguments, **more):
        more.setdefault("stdin", None if "input" in more else subprocess.DEVNULL)
        environment = {**os.environ, **more.pop("environment", {})}
        return subprocess.run([PROGRAM, *map(str, arguments)], stdout=more.pop("stdout", subprocess.PIPE),
                              stderr=subprocess.PIPE, timeout=120, env=environment, **more)

    def good(self, *arguments, **more):
        done = self.call(*arguments, **more)
        self.assertEqual(done.returncode, 0, (arguments, done.stderr))
        return done.stdout

    def bad(self, code, words, *arguments, **more):
        """Ends with this code and one line on stderr that holds the words; nothing on stdout."""
        done = self.call(*arguments, **more)
        message = done.stderr.decode()
        self.assertEqual(done.returncode, code, (arguments, message))
        self.assertTrue(message.startswith("error: "), message)
        self.assertEqual(message.count("\n"), 1, message)
        for word in words if isinstance(words, (list, tuple)) else [words]:
            self.assertIn(word, message)
        self.assertFalse(done.stdout)
        return message

    def left(self):
        return sorted(os.listdir(self.folder))


def joined(values):
    return ",".join(map(str, values))


class Usage(Program):
    def test_help_has_examples_and_fits_a_terminal(self):
        self.assertIn(b"tokenize", self.good("--help"))
        for verb in ["run", "chat", "bench", "logits", "template", "tokenize", "detokenize", "info", "explain", "probe", "check", "doctor", "new"]:
            text = self.good(verb, "--help").decode()
            self.assertIn("examples:", text)
            self.assertIn("--json", text)
            self.assertIn("--threads", text)
            for line in text.split("examples:")[0].splitlines():
                self.assertLessEqual(len(line), 80, line)
        self.assertRegex(self.good("--version").decode(), r"^fourfold \d+\.\d+\.\d+\n$")

    def test_misuse_is_code_2_and_names_what_is_wrong(self):
        self.bad(2, "nosuchverb", "nosuchverb")
        self.bad(2, "--nosuch", "run", "--nosuch")
        self.bad(2, "which model", "run", "-p", "x")
        self.bad(2, "which prompt", "run", "-m", GGUF)
        self.bad(2, "--executor", "run", "-m", GGUF, "--executor", "gpu", "-p", "x")
        self.bad(2, "--device", "info", "-m", GGUF, "--device", "tpu")
        refusal = self.bad(1, [], "run", "-m", GGUF, "--ids", "1", "--device", "cuda:999")
        self.assertIn("cuda", refusal.lower())  # no such device, no driver, or a build without it
        self.bad(2, "ids and a text", "run", "-m", GGUF, "--ids", "1", "-p", "x")
        self.bad(2, "two prompts", "run", "-m", GGUF, "-p", "x", "-f", GGUF)
        self.bad(2, "-o FILE", "logits", "-m", GGUF, "--ids", "1")
        self.bad(2, "/dev/stdout", "logits", "-m", GGUF, "--ids", "1", "-o", "-")

    def test_numbers_are_parsed_whole_and_in_range(self):
        for flag, values in {"-n": ["-2", "1e9", "5x", "", "99999999999", "0x10", "1.5"],
                             "-t": ["0", "-1", "nan", "100000"],
                             "-c": ["-5", "many"],
                             "--temp": ["nan", "inf", "-1", "1e3", "0.5x", "hot"],
                             "--top-p": ["1.5", "-0.1"],
                             "--repeat-penalty": ["0", "nan"],
                             "--top-k": ["-1", "2147483648"],
                             "-s": ["-2", "18446744073709551616", "1.0"],
                             "--batch-size": ["0"],
                             "--cache": ["q4_0"]}.items():
            for value in values:
                self.bad(2, flag.strip("-"), "run", "-m", GGUF, "--ids", "1", flag, value)
        for ids in ["1,,2", "1,-2", "a", "1,2,", "1.5", "99999999999"]:
            self.bad(2, "--ids", "run", "-m", GGUF, "--ids", ids)

    def test_llama_cpp_spellings(self):
        self.good("run", "-m", GGUF, "--ids", "5", "-n", "1", "-ctk", "bf16", "-c", "64", "-b", "32", "-t", "1", "-s", "-1",
                  "--temp", "0", "--top-k", "40", "--top-p", "0.9", "--min-p", "0.1", "--typical", "1",
                  "--repeat-penalty", "1.1", "--repeat-last-n", "64", "--presence-penalty", "0",
                  "--frequency-penalty", "0", "--xtc-probability", "0", "--xtc-threshold", "0.1", "--dynatemp-range", "0",
                  "--dynatemp-exp", "1", "--dry-multiplier", "0.8", "--dry-base", "1.75", "--dry-allowed-length", "2",
                  "--dry-penalty-last-n", "-1", "--dry-sequence-breaker", "none", "--mirostat", "2", "--mirostat-ent", "5",
                  "--mirostat-lr", "0.1", "--top-nsigma", "-1", "--ignore-eos")


class Text(Program):
    def vocabulary(self):
        """A file of metadata alone, of an architecture that nobody runs."""
        spelled = {}
        n = 0
        for b in range(256):  # GPT-2's letters for bytes
            if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255:
                spelled[b] = chr(b)
            else:
                spelled[b] = chr(256 + n)
                n += 1
        tokens = [spelled[b] for b in range(256)] + ["ab", "<eos>"]
        arrays.write_gguf(self.path("v.gguf"), {
            "general.architecture": "nobody-runs-this", "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
            "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": [1] * 257 + [3],
            "tokenizer.ggml.merges": ["a b"], "tokenizer.ggml.eos_token_id": 257})
        return self.path("v.gguf")

    def test_round_trip_of_every_byte(self):
        model = self.vocabulary()
        data = bytes(range(256)) + "ab ü 🦙\r\n\0".encode() + b"\xf0\x9f"
        self.put("in", data)
        ids = self.good("tokenize", "-m", model, "-f", self.path("in"))
        self.assertEqual(len(json.loads(ids)), len(data) - 2)  # "ab" is one token, twice
        self.assertEqual(self.good("detokenize", "-m", model, "-", input=ids), data)
        self.assertEqual(self.good("tokenize", "-m", model, "-", input=data), ids)

    def test_special_tokens_only_when_asked(self):
        model = self.vocabulary()
        self.assertEqual(json.loads(self.good("tokenize", "-m", model, "--special", "ab<eos>")), [256, 257])
        self.assertNotIn(257, json.loads(self.good("tokenize", "-m", model, "ab<eos>")))
        self.assertEqual(self.good("detokenize", "-m", model, "256,257"), b"ab")
        self.assertEqual(self.good("detokenize", "-m", model, "--special", "--ids", "256,257"), b"ab<eos>")
        pieces = self.good("tokenize", "-m", model, "--pieces", "ab\u00fc").splitlines()
        self.assertEqual(pieces[0], b'256\t"ab"')
        self.assertEqual(len(pieces), 3)
        for line in pieces:
            json.loads(line.split(b"\t")[1])

    def test_what_is_not_there(self):
        model = self.vocabulary()
        self.bad(1, "no-such-file", "tokenize", "-m", model, "-f", self.path("no-such-file"))
        self.bad(1, "258", "detokenize", "-m", model, "258")
        self.bad(2, "detokenize", "detokenize", "-m", model, "1,x")
        self.bad(2, "which text", "tokenize", "-m", model)
        self.bad(1, "tokenizer", "tokenize", "-m", LLAMA, "x")
        self.bad(1, "nobody-runs-this", "run", "-m", model, "--ids", "1")


class Information(Program):
    def test_info(self):
        text = self.good("info", "-m", GGUF, "--tensors", "--metadata").decode()
        for word in ["llama", "token_embd.weight", "general.architecture", "F32"]:
            self.assertIn(word, text)
        for line in text.splitlines():
            self.assertEqual(line, line.rstrip())
        facts = json.loads(self.good("info", "-m", GGUF, "--json", "--tensors"))
        self.assertEqual(facts["hyper_parameters"]["layers"], 3)
        self.assertEqual(len(facts["tensor_list"]), facts["tensors"])
        self.assertTrue(facts["runs"])
        self.assertEqual(json.loads(self.good("info", "-m", LLAMA, "--json"))["format"], "safetensors")

    def test_figures_no_integer_holds(self):
        config = {**json.loads(pathlib.Path(LLAMA, "config.json").read_text()), "rope_theta": 1e25}
        self.put("config.json", json.dumps(config).encode())
        shutil.copy(pathlib.Path(LLAMA, "model.safetensors"), self.path("model.safetensors"))
        self.assertRegex(self.good("info", "-m", self.folder).decode(), r"rope base +1000000")

    def test_info_of_an_architecture_that_cannot_run(self):
        arrays.write_gguf(self.path("v.gguf"), {"general.architecture": "nobody\nruns"})
        text = self.good("info", "-m", self.path("v.gguf")).decode()
        self.assertIn("because", text)
        self.assertIn("nobody\\x0aruns", text)
        self.assertFalse(json.loads(self.good("info", "-m", self.path("v.gguf"), "--json"))["runs"])

    def test_plans_are_drawn(self):
        page, events = self.path("plan.html"), self.path("plan.json")
        for path in page, events:
            self.good("explain", "--shape", "qwen3-0.6b", "--dtype", "bf16", "-c", "128", "--plan", path)
        self.assertIn("qwen3, one token behind 128 positions, expected", pathlib.Path(page).read_text())
        self.assertGreater(len(json.loads(pathlib.Path(events).read_text())["traceEvents"]), 1000)
        self.bad(2, "--trace goes with --plan FILE", "explain", "--shape", "qwen3-0.6b", "--dtype", "bf16", "--trace")

    def test_explain_adds_up(self):
        for arguments in [("-m", LLAMA), ("--shape", "llama-3-8b", "--dtype", "bf16", "--context", "4096")]:
            facts = json.loads(self.good("explain", *arguments, "--bandwidth", "100", "--compute", "2", "--price", "2",
                                         "--json"))
            total = facts["total"]
            self.assertAlmostEqual(sum(s["times"] * s["bytes"] for s in facts["steps"]), total["bytes"], delta=1)
            self.assertAlmostEqual(sum(s["times"] * s["flops"] for s in facts["steps"]), total["flops"], delta=1)
            self.assertAlmostEqual(sum(s["share"] for s in facts["steps"]), 1, delta=1e-9)
            for step in facts["steps"]:
                self.assertAlmostEqual(step["floor_s"], max(step["bytes"] / 1e11, step["flops"] / 2e12), delta=1e-12)
            self.assertAlmostEqual(total["dollars_per_million_tokens"], 2 / 3600 * total["floor_s"] * 1e6, delta=1e-9)
        # 8.03 G numbers of two bytes, less the embedding's rows that are not read, and 4096 positions of keys and values
        self.assertAlmostEqual(total["bytes"] / 1e9, 15.55, delta=0.01)

    def routed(self, *arguments):
        return json.loads(self.good("explain", "--shape", "qwen3-next-80b-a3b", "--bandwidth", "100", "--compute", "2",
                                    "--json", *arguments))

    def test_explain_of_a_routed_hybrid(self):
        # 48 layers: 512 experts of 3 x 2048 x 512 numbers in bf16, 10 of them for a token, behind a norm in float32
        layer, norm = 3 * 2048 * 512 * 2, 2048 * 4
        experts = self.routed()["experts"]
        self.assertEqual((experts["per_layer"], experts["distinct_per_layer"]), (512, 10))
        self.assertEqual(experts["touched_bytes"], 48 * (10 * layer + norm))
        self.assertEqual((experts["cpu_bytes"], experts["gpu_bytes"]), (48 * 512 * layer, 0))
        distinct = 512 * (1 - (1 - 10 / 512) ** 64)
        experts = self.routed("--tokens", "64")["experts"]
        self.assertAlmostEqual(experts["distinct_per_layer"], distinct, delta=1e-9)
        self.assertAlmostEqual(experts["touched_bytes"], 48 * (distinct * layer + norm), delta=1)
        # 12 layers keep keys and values of 2 heads of 256; 36 keep states of 32 heads and 3 tokens of 8192 channels
        states = 36 * (32 * 128 * 128 + 3 * 8192) * 4
        for cache, size in (("f16", 2), ("f32", 4)):
            rows = self.routed("--cache", cache)["by_context"]
            self.assertEqual([row["context"] for row in rows], [1024 * 4 ** i for i in range(6)])
            for row in rows:
                self.assertEqual(row["cache_bytes"], row["context"] * 12 * 2 * 2 * 256 * size)
                self.assertEqual(row["cache_bytes_per_token"], row["cache_bytes"])
                self.assertEqual((row["state_bytes"], row["state_bytes_per_token"]), (states, 2 * states))
        text = self.good("explain", "--shape", "qwen3-30b-a3b", "--bandwidth", "100", "--compute", "2").decode()
        self.assertIn("qwen3moe 31 G bf16", text)
        self.assertIn("8.0 of 128 experts", text)
        self.assertIn("experts: 8.0 of 128 in a layer are read, 3.62 GB of weights; 57.98 GB lie on the CPU", text)

    def test_explain_places_experts(self):
        layer, all_layers = 512 * 3 * 2048 * 512 * 2, 48 * 512 * 3 * 2048 * 512 * 2

        def places(*arguments):
            experts = self.routed(*arguments)["experts"]
            self.assertEqual(experts["cpu_bytes"] + experts["gpu_bytes"], all_layers)
            return experts["gpu_bytes"] / layer
        for without_gpu in ((), ("--experts-on", "gpu"), ("-cmoe",), ("-ncmoe", "3"), ("--gpu-memory", "0")):
            self.assertEqual(places(*without_gpu), 0, without_gpu)
        large = ("--gpu-memory", "1000")
        self.assertEqual(places(*large), 48)
        self.assertEqual(places(*large, "--experts-on", "gpu"), 48)
        self.assertEqual(places(*large, "--experts-on", "cpu"), 0)
        self.assertEqual(places(*large, "-cmoe"), 0)
        self.assertEqual(places(*large, "--cpu-moe"), 0)
        self.assertEqual(places(*large, "-ncmoe", "3"), 45)
        self.assertEqual(places(*large, "--n-cpu-moe", "0"), 48)
        self.assertEqual(places(*large, "--n-cpu-moe", "99"), 0)
        # what is left of the GPU holds whole layers: the last ones
        weights = self.routed()["memory"]["weights"]
        self.assertEqual(places("--gpu-memory", str((weights - all_layers + 2.5 * layer) / 1e9)), 2)
        self.assertIn(b"0 B on a GPU (none: this plans only", self.good(
            "explain", "--shape", "qwen3-30b-a3b", "--bandwidth", "1", "--compute", "1", "--experts-on", "gpu"))

    def test_explain_refuses_places_that_are_none(self):
        shape = ("explain", "--shape", "qwen3-30b-a3b", "--bandwidth", "1", "--compute", "1")
        self.bad(2, ["--experts-on", "cpu, gpu, auto"], *shape, "--experts-on", "tpu")
        for value in ("-1", "x", "1.5", "65537"):
            self.bad(2, "--n-cpu-moe", *shape, "-ncmoe", value)
        self.bad(2, "--gpu-memory", *shape, "--gpu-memory", "-1")
        self.bad(2, ["--experts-on gpu", "--cpu-moe"], *shape, "--experts-on", "gpu", "-cmoe")
        self.bad(2, ["--experts-on gpu", "--n-cpu-moe"], *shape, "--experts-on", "gpu", "-ncmoe", "2")

    def test_explain_draws_a_plan(self):
        self.good("explain", "--shape", "llama-3.2-1b", "--plan", self.path("p.json"))
        events = json.loads(pathlib.Path(self.path("p.json")).read_text())["traceEvents"]
        self.assertTrue({"blk.0.qkv", "blk.15.down", "logits"} <= {event["name"] for event in events})
        self.good("explain", "--shape", "llama-3.2-1b", "--plan", self.path("p.html"))
        self.assertIn("<canvas", pathlib.Path(self.path("p.html")).read_text())
        self.bad(1, "cannot be written", "explain", "--shape", "llama-3.2-1b", "--plan", self.path("no/p.html"))
        refused = self.call("explain", "--shape", "qwen3-30b-a3b", "--plan", self.path("q.html"))
        self.assertEqual(refused.returncode, 1)
        self.assertIn(b"blk.0.experts_down: only embed, project and attend steps run here", refused.stderr)
        self.assertEqual(self.left(), ["p.html", "p.json"])

    def test_balance(self):
        facts = json.loads(self.good("balance", "--steps", "12", "--json"))
        violations = facts["max_violation"]
        self.assertEqual((facts["rule"], len(violations)), ("quantile", 12))
        self.assertEqual(facts, json.loads(self.good("balance", "--steps", "12", "--json")), "a seed is a stream")
        self.assertLess(violations[-1], 0.5 * violations[0])
        none = json.loads(self.good("balance", "--rule", "none", "--steps", "12", "--json"))["max_violation"]
        self.assertEqual(none[0], violations[0], "the first step has no past")
        self.assertGreater(min(none), max(violations[1:]))
        other = json.loads(self.good("balance", "--steps", "12", "--seed", "2", "--json"))["max_violation"]
        self.assertNotEqual(other, violations)
        rows = self.good("balance", "--steps", "3").decode().splitlines()
        self.assertEqual([row.split()[0] for row in rows], ["step", "1", "2", "3"])
        self.assertAlmostEqual(float(rows[2].split()[1]), violations[1], delta=5e-4)
        self.bad(2, ["--rule", "none, sign, quantile"], "balance", "--rule", "luck")
        self.bad(2, "--experts", "balance", "--experts", "1")
        self.bad(1, ["40 chosen", "[1, 31]"], "balance", "--chosen", "40")
        self.bad(1, ["3000 shards", "10 tokens"], "balance", "--tokens", "10", "--shards", "3000")

    def test_new(self):
        folder = self.path("my")
        written = json.loads(self.good("new", "rule", "TwoBest", "-o", folder, "--json"))
        names = ["CMakeLists.txt", "two_best.hpp", "two_best_bench.cpp", "two_best_test.cpp"]
        self.assertEqual(sorted(written), [os.path.join(folder, name) for name in names])
        self.assertEqual(sorted(os.listdir(folder)), names)
        self.assertIn("struct TwoBest", pathlib.Path(folder, "two_best.hpp").read_text())
        self.bad(1, "two_best.hpp", "new", "rule", "TwoBest", "-o", folder)
        self.bad(2, "walk|score|gate|rule NAME", "new")
        self.bad(2, "walk|score|gate|rule NAME", "new", "walk")
        self.bad(2, ["'monoid' is no kind", "walk, score, gate, rule"], "new", "monoid", "Mine")
        for name in ("twoBest", "9", "A-b", "A" * 65):
            self.bad(2, "must be a C++ type's name", "new", "walk", name)
        self.assertEqual(self.left(), ["my"])

    def test_doctor_and_forced_levels(self):
        facts = json.loads(self.good("doctor", "--json"))
        for level in facts["levels"].split():
            chosen = json.loads(self.good("doctor", "--json", environment={"FOURFOLD_ISA": level}))["level_chosen"]
            self.assertEqual(chosen, level)
        self.assertEqual(self.call("doctor", environment={"FOURFOLD_ISA": "sse9"}).returncode, 1)
        done = self.call("run", "-m", GGUF, "--ids", "1", "-n", "1", environment={"FOURFOLD_ISA": "sse9"})
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"sse9", done.stderr)

    def test_one_processor_means_one_thread(self):
        one = str(min(os.sched_getaffinity(0)))
        done = subprocess.run(["taskset", "-c", one, PROGRAM, "doctor", "--json"], stdout=subprocess.PIPE, check=True)
        self.assertTrue(json.loads(done.stdout)["threads"].startswith("1,"))

    def test_probe(self):
        facts = json.loads(self.good("probe", "--quick", "--json", "-t", "1"))
        self.assertGreater(facts["read_bytes_per_s"], 0)
        self.assertEqual(facts["threads"], 1)


class Logits(Program):
    def logits(self, model, ids, *more):
        self.good("logits", "-m", model, "--ids", joined(ids), "-o", self.path("o.npy"), *more)
        self.assertEqual(self.left(), ["o.npy"])
        return arrays.read_npy(self.path("o.npy"))

    def test_goldens(self):
        for family in FAMILIES:
            model = f"{DATA}/models/{family}"
            golden = arrays.read_safetensors(model + "/golden.safetensors")
            fair = json.loads(pathlib.Path(model, "golden.json").read_text())["fair_bf16_tol"]
            for p, bound in enumerate(fair):
                ids, at = golden[f"prompt{p}.ids"][1], golden[f"prompt{p}.positions"][1]
                for more, most in ((("--f32",), 1e-4), ((), bound)):
                    with self.subTest(family=family, prompt=p, options=more):
                        (rows, vocab), got = self.logits(model, ids, "--positions", "all", *more)
                        self.assertEqual(rows, len(ids))
                        chosen = [x for i in at for x in got[i * vocab:(i + 1) * vocab]]
                        self.assertLessEqual(arrays.relative_rms(chosen, golden[f"prompt{p}.logits"][1]), most)

    def test_gguf_against_the_same_goldens(self):
        golden = arrays.read_safetensors(LLAMA + "/golden.safetensors")
        for name, most in (("f32", 1e-4), ("f16", 1e-2)):
            _, got = self.logits(f"{DATA}/models/llama.{name}.gguf", golden["prompt0.ids"][1], "--f32")
            self.assertLessEqual(arrays.relative_rms(got, golden["prompt0.logits"][1]), most)

    def test_same_bits_for_any_threads_chunks_and_positions(self):
        ids = list(arrays.read_safetensors(LLAMA + "/golden.safetensors")["prompt2.ids"][1])
        for family in FAMILIES:
            for more in ((), ("--f32",), ("--cache", "bf16")):
                (rows, vocab), first = self.logits(f"{DATA}/models/{family}", ids, "-t", "1", *more)
                for change in (("-t", "2"), ("-t", "7"), ("--chunk", "1"), ("--chunk", "7"), ("--chunk", "64")):
                    with self.subTest(family=family, options=more, change=change):
                        self.assertEqual(self.logits(f"{DATA}/models/{family}", ids, *more, *change)[1], first)
        last = self.logits(f"{DATA}/models/gemma3", ids, *more, "--positions", "last")
        self.assertEqual(last[0], (1, vocab))
        self.assertEqual(last[1], first[-vocab:])
        some = self.logits(f"{DATA}/models/gemma3", ids, *more, "--positions", "0,5,-1", "--chunk", "3")
        self.assertEqual(some[1], first[:vocab] + first[5 * vocab:6 * vocab] + first[-vocab:])

    def test_executors_agree(self):
        ids = range(3, 20)
        _, exact = self.logits(LLAMA, ids, "--executor", "reference")
        _, single = self.logits(LLAMA, ids, "--executor", "reference-f32")
        _, team = self.logits(LLAMA, ids, "--f32")
        self.assertLess(arrays.relative_rms(single, exact), 1e-5)
        self.assertLess(arrays.relative_rms(team, exact), 1e-5)

    def test_refusals_leave_no_file(self):
        file = self.path("o.npy")
        for code, word, more in [(1, "outside the vocabulary", ["--ids", "1,331"]),
                                 (1, ["257", "256"], ["--ids", joined([5] * 257)]),
                                 (1, ["20", "16"], ["--ids", joined([5] * 20), "-c", "16"]),
                                 (1, "--positions", ["--ids", "1,2", "--positions", "2"]),
                                 (2, "--positions", ["--ids", "1,2", "--positions", "some"]),
                                 (2, "--positions", ["--ids", "1,2", "--positions", "1,0"]),
                                 (1, "routed", ["--ids", "1,2", "--experts", self.path("e.json")])]:
            self.bad(code, word, "logits", "-m", LLAMA, "-o", file, *more)
            self.assertEqual(self.left(), [])
        self.put("ids", b"[5, 6,\n 7]\n")
        self.good("logits", "-m", LLAMA, "--ids-file", self.path("ids"), "-o", file)
        self.assertEqual(arrays.read_npy(file)[0], (3, 331))


class Run(Program):
    def test_greedy_is_exact(self):
        for family in FAMILIES:
            golden = arrays.read_safetensors(f"{DATA}/models/{family}/golden.safetensors")
            done = json.loads(self.good("run", "-m", f"{DATA}/models/{family}", "--ids", joined(golden["prompt0.ids"][1]),
                                        "-n", "16", "--temp", "0", "--f32", "--ignore-eos", "--json"))
            self.assertEqual(done["ids"], list(golden["prompt0.greedy"][1]))
            self.assertEqual(done["finish"], "length")
            self.assertEqual(set(done), {"ids", "text", "finish", "timings"})
            self.assertEqual(done["timings"]["decode_tokens"], 15)

    def test_text_streams_and_figures_follow(self):
        done = self.call("run", "-m", GGUF, "-p", "abc", "-n", "5", "--temp", "0", "--ignore-eos")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith(b"abc") and done.stdout.endswith(b"\n"), done.stdout)
        self.assertRegex(done.stderr.decode(), r"^load .* first token .* prefill \d+ tokens .* t/s .* decode 4 tokens .* "
                                               r"t/s .*/token, .*% of .* GB/s \((memory|compute) binds\)\n$")
        answer = self.good("run", "-m", GGUF, "-p", "abc", "-n", "5", "--temp", "0", "--ignore-eos", "--no-display-prompt")
        self.assertEqual(b"abc" + answer, done.stdout)
        self.put("p", b"abc")
        self.assertEqual(self.good("run", "-m", GGUF, "-f", self.path("p"), "-n", "5", "--temp", "0", "--ignore-eos"),
                         done.stdout)
        self.assertEqual(self.good("run", "-m", GGUF, "-", "-n", "5", "--temp", "0", "--ignore-eos", input=b"abc"),
                         done.stdout)

    def test_a_file_keeps_every_byte(self):
        for end in (b"", b"\n", b"\n\n"):
            done = self.call("run", "-m", GGUF, "-", "-n", "1", "--temp", "0", input=b"abc" + end)
            n = len(json.loads(self.good("tokenize", "-m", GGUF, "-", input=b"abc" + end)))
            self.assertIn(f"prefill {n} tokens", done.stderr.decode())
            self.assertTrue(done.stdout.startswith(b"abc" + end))

    def test_pieces_of_characters_never_break_output_or_json(self):
        for seed in range(8):  # random bytes, most of them no UTF-8
            arguments = ["run", "-m", GGUF, "--ids", "5,6,7", "-n", "60", "--temp", "50", "--top-k", "0", "--top-p", "1",
                         "--min-p", "0", "--ignore-eos", "-s", seed]
            text = json.loads(self.good(*arguments, "--json"))["text"]
            shown = self.good(*arguments).decode()  # would throw
            self.assertEqual(shown, text + "\n")
        self.assertIn("\ufffd", text)

    def test_seeds(self):
        def ids(*more):
            return json.loads(self.good("run", "-m", GGUF, "--ids", "5,6", "-n", "20", "--ignore-eos", "--json", *more))["ids"]
        self.assertEqual(ids("-s", "7"), ids("-s", "7"))
        self.assertNotEqual(ids("-s", "7", "--temp", "5"), ids("-s", "8", "--temp", "5"))
        self.assertEqual(ids("--temp", "0", "-s", "1"), ids("--temp", "0", "-s", "2"))

    def test_stop_text(self):
        arguments = ["run", "-m", GGUF, "--ids", "5,6", "-n", "40", "--ignore-eos", "--json", "-s", "3"]
        whole = json.loads(self.good(*arguments))["text"]
        stop = whole[10:12]
        done = json.loads(self.good(*arguments, "--stop", "never in the text", "--stop", stop))
        self.assertEqual((done["text"], done["finish"]), (whole[:whole.index(stop)], "stop"))

    def test_nothing_is_cut_silently(self):
        self.bad(1, ["300", "256"], "run", "-m", GGUF, "--ids", joined([5] * 300))
        self.bad(1, ["20", "16"], "run", "-m", GGUF, "--ids", joined([5] * 20), "-c", "16")
        self.bad(1, "empty", "run", "-m", GGUF, "-p", "")
        done = self.call("run", "-m", GGUF, "--ids", joined([5] * 15), "-c", "16", "--ignore-eos")
        self.assertEqual(done.returncode, 0)
        self.assertIn("the context of 16 tokens is full", done.stderr.decode())
        done = json.loads(self.good("run", "-m", GGUF, "--ids", joined([5] * 15), "-c", "16", "--ignore-eos", "--json"))
        self.assertEqual((done["finish"], len(done["ids"])), ("context", 2))
        done = json.loads(self.good("run", "-m", GGUF, "--ids", joined([5] * 16), "-c", "16", "--ignore-eos", "--json"))
        self.assertEqual((done["finish"], len(done["ids"])), ("context", 1))
        done = json.loads(self.good("run", "-m", GGUF, "--ids", "5", "-n", "0", "--json"))
        self.assertEqual((done["finish"], done["ids"], done["text"]), ("length", [], ""))

    def test_a_model_without_vocabulary_prints_ids(self):
        done = self.call("run", "-m", LLAMA, "--ids", "5,6", "-n", "3", "--temp", "0", "--ignore-eos")
        self.assertRegex(done.stdout.decode(), r"^\d+,\d+,\d+\n$")
        self.assertEqual(json.loads(self.good("run", "-m", LLAMA, "--ids", "5,6", "-n", "3", "--temp", "0", "--json",
                                              "--ignore-eos"))["text"], "")
        self.bad(1, "tokenizer", "run", "-m", LLAMA, "-p", "x")


class Interrupted(Program):
    SLOW = ["run", "-m", GGUF, "--ids", "5", "--ignore-eos", "--executor", "reference", "-n", "255"]

    def start(self, *arguments, **more):
        running = subprocess.Popen([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        self.addCleanup(running.kill)
        return running

    def test_control_c_ends_generation_with_its_closing_line(self):
        running = self.start(*self.SLOW)
        first = running.stdout.read(1)
        running.send_signal(signal.SIGINT)
        rest, remarks = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130)
        self.assertTrue((first + rest).endswith(b"\n"))
        self.assertIn("interrupted", remarks.decode())
        self.assertEqual(remarks.count(b"\n"), 1)

    def interrupted(self, *arguments, by=signal.SIGINT):
        """Interrupts the program later and later, until it was at work; what it printed."""
        for wait in (0.03, 0.06, 0.1, 0.2, 0.4, 0.8):
            running = self.start(*arguments)
            time.sleep(wait)
            running.send_signal(by)
            text, remarks = running.communicate(timeout=60)
            yield running.returncode, text, remarks

    def test_control_c_with_json_still_prints_one_object(self):
        printed = [text for code, text, _ in self.interrupted(*self.SLOW, "--json") if code == 130 and text]
        self.assertTrue(printed)
        for text in printed:
            self.assertEqual(json.loads(text)["finish"], "cancelled")

    def leaves_no_file(self, by, stopped_code):
        stopped = 0
        for code, _, _ in self.interrupted("logits", "-m", LLAMA, "--ids", joined([5] * 256), "--executor", "reference",
                                           "--chunk", "1", "-o", self.path("o.npy"), by=by):
            self.assertEqual(self.left(), ["o.npy"] if code == 0 else [])
            stopped += code == stopped_code
            if code == 0:
                os.unlink(self.path("o.npy"))
        self.assertGreater(stopped, 0)

    def test_control_c_leaves_no_file(self):
        self.leaves_no_file(signal.SIGINT, 130)

    def test_a_hang_up_leaves_no_file(self):
        self.leaves_no_file(signal.SIGHUP, 128 + signal.SIGHUP)

    def test_a_closed_pipe_ends_quietly(self):
        for arguments in (["run", "-m", GGUF, "--ids", "5", "-n", "250", "--ignore-eos"],
                          ["info", "-m", GGUF, "--tensors", "--metadata"]):
            command = " ".join([PROGRAM, *arguments]) + " | head -c 1; exit ${PIPESTATUS[0]}"
            done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
            self.assertEqual((done.returncode, len(done.stdout), done.stderr), (0, 1, b""))

    def test_a_terminal_gets_colour_unless_refused(self):
        for refused in (False, True):
            environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
            if refused:
                environment["NO_COLOR"] = "1"
            ours, theirs = pty.openpty()
            running = subprocess.Popen([PROGRAM, "run", "-m", GGUF, "--ids", "5", "-n", "1"], stdout=subprocess.DEVNULL,
                                       stderr=theirs, env=environment)
            os.close(theirs)
            running.wait(timeout=60)
            self.assertEqual(b"\033" in os.read(ours, 4096), not refused)
            os.close(ours)


class Faults(Program):
    def test_a_full_disk_is_one_line(self):
        self.bad(1, ["/dev/full", "No space left"], "logits", "-m", LLAMA, "--ids", "5", "-o", "/dev/full")
        for arguments in (["run", "-m", GGUF, "--ids", "5", "-n", "2"], ["info", "-m", GGUF], ["doctor"]):
            self.bad_stdout("No space left", *arguments)

    def bad_stdout(self, word, *arguments):
        with open("/dev/full", "wb") as full:
            done = self.call(*arguments, stdout=full)
        self.assertEqual(done.returncode, 1)
        self.assertIn(word, done.stderr.decode())
        self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)

    def test_closed_streams_touch_no_other_file(self):
        subprocess.run(["bash", "-c", f"{PROGRAM} logits -m {LLAMA} --ids 5 --json -o {self.path('o.npy')} <&- >&- 2>&-"],
                       check=True, timeout=60)
        self.assertEqual(arrays.read_npy(self.path("o.npy"))[0], (1, 331))

    def test_outputs_that_cannot_be_made(self):
        self.bad(1, "no-such-folder", "logits", "-m", LLAMA, "--ids", "5", "-o", self.path("no-such-folder/o.npy"))
        os.mkdir(self.path("folder"))
        self.bad(1, "folder", "logits", "-m", LLAMA, "--ids", "5", "-o", self.path("folder"))
        self.put("o.npy", b"old")
        self.bad(1, "vocabulary", "logits", "-m", LLAMA, "--ids", "331", "-o", self.path("o.npy"))
        self.assertEqual(pathlib.Path(self.path("o.npy")).read_bytes(), b"old")

    def test_truncated_models_are_one_line(self):
        whole = pathlib.Path(GGUF).read_bytes()
        for size in [0, 3, 4, 23, 24, 200, 5000, len(whole) // 2, len(whole) - 1]:
            self.put("t.gguf", whole[:size])
            self.bad(1, "t.gguf", "run", "-m", self.path("t.gguf"), "--ids", "5", "-n", "1")
        weights = pathlib.Path(LLAMA, "model.safetensors").read_bytes()
        os.mkdir(self.path("m"))
        shutil.copy(LLAMA + "/config.json", self.path("m"))
        for size in [0, 7, 8, 100, len(weights) - 1]:
            self.put("m/model.safetensors", weights[:size])
            self.bad(1, "model.safetensors", "run", "-m", self.path("m"), "--ids", "5", "-n", "1")

    def test_a_model_cut_while_it_is_read_is_one_line(self):
        self.put("t.gguf", pathlib.Path(GGUF).read_bytes())
        running = subprocess.Popen([PROGRAM, "run", "-m", self.path("t.gguf"), "-", "-n", "2"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(running.kill)
        time.sleep(0.5)  # the tensors' table is read by now, the weights wait for the prompt
        os.truncate(self.path("t.gguf"), 600000)
        shown, message = running.communicate(b"ab", timeout=60)
        self.assertEqual((running.returncode, shown, message.count(b"\n")), (1, b"", 1), message)
        self.assertTrue(message.startswith(b"error: t.gguf: "), message)

    def test_what_is_no_model(self):
        self.bad(1, "no-such", "run", "-m", self.path("no-such.gguf"), "--ids", "5")
        self.bad(1, "folder", "run", "-m", self.folder, "--ids", "5")
        self.bad(1, "null", "run", "-m", "/dev/null", "--ids", "5")
        self.put("noise.gguf", bytes(range(256)) * 64)
        self.bad(1, "noise.gguf", "info", "-m", self.path("noise.gguf"))

    def test_errors_stay_on_one_line_whatever_the_file_says(self):
        arrays.write_gguf(self.path("v.gguf"), {"general.architecture": "a\nb\x1b[31m"})
        self.assertNotIn("\x1b", self.bad(1, "a\\x0ab\\x1b", "run", "-m", self.path("v.gguf"), "--ids", "5"))
        arrays.write_gguf(self.path("v.gguf"), {"general.architecture": "llama"})
        self.bad(1, ["llama.block_count is missing; ", "llama.context_length"], "run", "-m", self.path("v.gguf"), "--ids", "5")
        self.bad(1, "sse9", "run", "-m", GGUF, "--ids", "5", environment={"FOURFOLD_ISA": "sse9"})

    def test_a_text_without_end(self):
        self.bad(1, "32 MiB", "run", "-m", GGUF, "-f", "/dev/zero")
        self.bad(1, "32 MiB", "tokenize", "-m", GGUF, "-f", "/dev/zero")
        self.put("t", b"")
        lines = subprocess.Popen(["sh", "-c", "echo '\"\"\"'; yes"], stdout=subprocess.PIPE)
        self.addCleanup(lines.wait)
        self.addCleanup(lines.stdout.close)
        for endless in [open("/dev/zero", "rb"), lines.stdout]:
            self.bad(1, "32 MiB", "chat", "-m", GGUF, "--template", self.path("t"), stdin=endless)

    def test_a_limit_of_file_sizes(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        self.bad(1, "File too large", "logits", "-m", LLAMA, "--ids", "5", "-o", self.path("o.npy"), preexec_fn=limit)
        self.assertEqual(self.left(), [])

    def test_memory_that_runs_out_is_one_line(self):
        def few(mebibytes):
            return lambda: resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))

        if self.call("doctor", preexec_fn=few(1024)).returncode != 0:
            self.skipTest("a sanitizer's shadow needs more")
        ends = set()
        for mebibytes in range(40, 800, 19):
            done = self.call("logits", "-m", GGUF, "--ids", "5,6", "-o", self.path("o.npy"), "-t", "8",
                             preexec_fn=few(mebibytes))
            ends.add(done.returncode)
            if done.returncode != 0:
                self.assertEqual(done.returncode, 1, (mebibytes, done.stderr))
                self.assertRegex(done.stderr, rb"^error: [^\n]+\n$", mebibytes)
        self.assertEqual(ends, {0, 1})

    def test_far_more_threads_than_processors(self):
        self.good("run", "-m", GGUF, "--ids", "5", "-n", "2", "-t", "300")

    def test_a_plan_that_cannot_be_lists_why(self):
        done = self.call("run", "-m", LLAMA, "--ids", "5", "--cache", "q8_0")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"q8_0", done.stderr)
        self.assertTrue(done.stderr.startswith(b"error: "))


class Check(Program):
    def test_every_family_agrees_with_the_reference(self):
        for family in FAMILIES:
            for more in ([], ["--f32"], ["--executor", "reference-f32"]):
                facts = json.loads(self.good("check", "-m", f"{DATA}/models/{family}", "--json", *more))
                self.assertTrue(facts["ok"])
                self.assertTrue(all(step["distance"] <= step["tolerance"] for step in facts["steps"]))
        self.assertIn(b"agrees", self.good("check", "-m", GGUF))

    def test_steps_are_decoded_twice(self):
        self.assertIn(b"5 decode steps, twice: the same bits", self.good("check", "-m", GGUF, "--steps", "5"))
        facts = json.loads(self.good("check", "-m", GGUF, "--steps", "5", "--json"))
        self.assertEqual((facts["repeats"]["steps"], facts["repeats"]["ok"]), (5, True))

    def test_every_level_agrees(self):
        for level in json.loads(self.good("doctor", "--json"))["levels"].split():
            self.good("check", "-m", GGUF, environment={"FOURFOLD_ISA": level})


class Template(Program):
    MESSAGES = b'[{"role": "user", "content": "h\\u00e9 <b>"}]'

    def test_exactly_the_bytes(self):
        self.put("t", b"{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
                      b"{% if add_generation_prompt %}>{% endif %}{{ eos_token }}")
        self.put("m", self.MESSAGES)
        files = ["--template", self.path("t"), "--messages", self.path("m")]
        self.assertEqual(self.good("template", *files), "[user]h\u00e9 <b>>".encode())
        self.assertEqual(self.good("template", *files, "--bos-text", "<s>", "--eos-text", "</s>", "--no-generation-prompt"),
                         "<s>[user]h\u00e9 <b></s>".encode())
        self.assertEqual(self.good("template", *files, "-m", GGUF), "<s>[user]h\u00e9 <b>></s>".encode())
        self.assertEqual(json.loads(self.good("template", *files, "--json")), {"text": "[user]h\u00e9 <b>>"})
        self.put("tools", b'[{"name": "f"}]')
        self.put("t", b"{{ tools[0].name }}\n\n")
        self.assertEqual(self.good("template", *files, "--tools", self.path("tools")), b"f\n")

    def test_the_template_of_a_file_nobody_can_run(self):
        arrays.write_gguf(self.path("v.gguf"), {"general.architecture": "x", "tokenizer.chat_template": "{{ messages|length }}"})
        self.assertEqual(self.good("template", "-m", self.path("v.gguf"), "--messages", "-", input=self.MESSAGES), b"1")

    def test_errors(self):
        self.put("t", b"a\n{% if %}")
        self.put("m", self.MESSAGES)
        self.bad(1, "2", "template", "--template", self.path("t"), "--messages", self.path("m"))
        self.bad(1, "chat template", "template", "-m", GGUF, "--messages", self.path("m"))
        self.bad(2, "--messages", "template", "--template", self.path("t"))
        self.bad(2, "which template", "template", "--messages", self.path("m"))
        self.put("t", b"{{ 1 }}")
        self.put("m", b"[{]")
        self.bad(1, "messages", "template", "--template", self.path("t"), "--messages", self.path("m"))


class Chat(Program):
    TEMPLATE = b"{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}assistant:"

    def chat(self, lines, *more, code=0):
        self.put("t", self.TEMPLATE)
        done = self.call("chat", "-m", GGUF, "--template", self.path("t"), "--temp", "0", "-n", "8", *more,
                         input="\n".join(lines).encode() + b"\n")
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout.decode(errors="strict"), done.stderr.decode()

    def test_the_cache_prefix_is_reused(self):
        _, remarks = self.chat(["ab", "cd", "/stats"])
        self.assertRegex(remarks, r"prefill \d+ tokens .* positions, [1-9]\d* reused")

    def test_answers_follow_from_the_rendered_conversation(self):
        answer, _ = self.chat(["ab"], "--system", "be kind")
        prompt = "system:be kind;user:ab;assistant:"
        ids = json.loads(self.good("tokenize", "-m", GGUF, "--special", prompt))
        again = json.loads(self.good("run", "-m", GGUF, "--ids", joined(ids), "-n", "8", "--temp", "0", "--json"))
        self.assertEqual(answer, again["text"] + "\n")
        rows = [json.loads(line) for line in self.chat(["ab"], "--system", "be kind", "--json")[0].splitlines()]
        self.assertEqual([(r["role"], r["content"]) for r in rows], [("assistant", again["text"])])

    def test_lines_are_joined(self):
        one, _ = self.chat(['"""', "ab", "cd", '"""'])
        self.assertEqual(one, self.chat(["ab\\", "cd"])[0])
        self.assertNotEqual(one, self.chat(["ab cd"])[0])

    def test_commands(self):
        first, remarks = self.chat(["ab", "/regen", "/nonsense", "/save", "/help", "/exit", "never read"])
        self.assertEqual(len(set(first.splitlines())), 1)
        self.assertIn("/nonsense", remarks)
        self.assertIn("needs a file", remarks)
        self.assertIn("/system TEXT", remarks)
        cleared, _ = self.chat(["cd", "/clear", "ab"])
        self.assertTrue(cleared.endswith(first.splitlines()[0] + "\n"))

    def test_save_and_load(self):
        file = self.path("kept")
        whole, _ = self.chat(["ab", "cd"])
        self.chat(["ab", "/save " + file])
        self.assertEqual(self.left(), ["kept", "kept.json", "t"])
        rest, remarks = self.chat(["/load " + file, "cd", "/stats"])
        self.assertTrue(whole.endswith(rest) and rest)
        self.assertIn("2 messages", remarks)
        self.assertRegex(remarks, r", [1-9]\d* reused")
        self.assertIn("no-such", self.chat(["/load " + self.path("no-such")])[1])

    def test_a_session_never_replaces_a_pipe_or_a_device(self):
        os.mkfifo(self.path("pipe"))
        self.assertIn("accepted: a file", self.chat(["ab", "/save " + self.path("pipe")])[1])
        self.assertTrue(stat.S_ISFIFO(os.stat(self.path("pipe")).st_mode))
        self.assertEqual(self.left(), ["pipe", "t"])

    def test_a_full_context_is_told_and_the_oldest_turns_go(self):
        answers, remarks = self.chat(["ab" * 8, "cd" * 8, "ef" * 8], "-c", "64", "-n", "16")
        self.assertIn("the context holds 64: the oldest turns are dropped", remarks)
        self.assertGreaterEqual(len(answers.splitlines()), 3)
        answers, remarks = self.chat(["abcdefgh" * 32, "ab"], "-c", "64", code=1)
        self.assertRegex(remarks, r"this turn alone has \d+ tokens, the context holds 64: it is left out")
        self.assertEqual(answers, self.chat(["ab"], "-c", "64")[0])

    def test_a_terminal_is_asked(self):
        self.put("t", self.TEMPLATE)
        ours, theirs = pty.openpty()
        running = subprocess.Popen([PROGRAM, "chat", "-m", GGUF, "--template", self.path("t"), "-c", "64", "-n", "100",
                                    "--temp", "0"], stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self.addCleanup(os.close, ours)
        self.addCleanup(running.kill)
        shown = self.until(ours, b"> ")
        self.assertIn(b"/help lists commands", shown)
        os.write(ours, b"abab\n")
        while b"[D/c/s]" not in (shown := self.until(ours, b"> ", b"[D/c/s]")):
            os.write(ours, b"cdcdcdcd\n")
        os.write(ours, b"s\n")
        self.assertEqual(running.wait(timeout=60), 0)

    def until(self, terminal, *ends):
        shown = b""
        while not any(end in shown for end in ends):
            shown += os.read(terminal, 4096)
        return shown


class Bench(Program):
    def test_forms(self):
        arguments = ["bench", "-m", GGUF, "-p", "4,8", "-n", "3", "-d", "0,16", "-r", "2", "--price", "1"]
        rows = json.loads(self.good(*arguments, "-o", "json"))
        self.assertEqual([(r["n_prompt"], r["n_gen"], r["n_depth"]) for r in rows],
                         [(4, 0, 0), (8, 0, 0), (0, 3, 0), (4, 0, 16), (8, 0, 16), (0, 3, 16)])
        for row in rows:
            self.assertEqual(len(row["samples_ts"]), 2)
            self.assertAlmostEqual(row["avg_ts"], sum(row["samples_ts"]) / 2, delta=1e-6 * row["avg_ts"])
            for name in ["stddev_ts", "p50_ms", "p99_ms", "bytes_per_token", "share_of_ceiling", "mfu", "binds",
                         "dollars_per_million_tokens", "model_type", "model_size", "model_n_params", "n_threads"]:
                self.assertIn(name, row)
        arguments = ["bench", "-m", GGUF, "-p", "4", "-n", "3", "-d", "16", "-r", "1"]
        lines = self.good(*arguments, "-o", "jsonl").splitlines()
        self.assertEqual(len([json.loads(line) for line in lines]), 2)
        table = self.good(*arguments).decode().splitlines()
        self.assertEqual(len(table), 6)
        self.assertRegex(table[0], r"^model llama .* · backend team · threads \d+$")
        self.assertEqual(len({line.count("|") for line in table[2:]}), 1)
        self.assertLessEqual(max(map(len, table)), 120)
        self.assertIn("pp4 @ d16", table[4])
        self.assertIn("tg3 @ d16", table[5])
        short = json.loads(self.good("bench", "-m", GGUF, "-p", "4", "-n", "0", "-r", "1000", "--most-seconds", "0.05",
                                     "-o", "json"))[0]
        self.assertIn(len(short["samples_ts"]), range(1, 1000))
        sheet = self.good(*arguments, "-o", "csv").decode().splitlines()
        self.assertEqual(len(sheet), 3)
        self.assertIn("avg_ts", sheet[0])

    def test_a_named_shape(self):
        rows = json.loads(self.good("bench", "--shape", "smollm2-135m", "--dtype", "q8_0", "-p", "0", "-n", "2", "-r", "1",
                                    "-t", "1", "--json"))
        self.assertEqual(rows[0]["n_threads"], 1)
        table = self.good("bench", "--shape", "smollm2-135m", "--dtype", "q8_0,q4_0", "-p", "0", "-n", "1", "-r", "1").decode()
        self.assertRegex(table, r"^params .*\n\n\| model +\| +size \| test")
        self.bad(1, "smollm2-135m", "bench", "--shape", "no-such-shape")
        self.bad(2, "either", "bench", "--shape", "smollm2-135m", "-m", GGUF)

    def test_refusals_name_the_options(self):
        self.bad(1, ["-d", "383", "256"], "bench", "-m", GGUF, "-p", "4", "-n", "128", "-d", "255")
        self.bad(2, "-p and -n are 0", "bench", "-m", GGUF, "-p", "0", "-n", "0")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]], verbosity=0)
