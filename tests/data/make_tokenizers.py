#!/usr/bin/env python3
"""Writes tests/data/tokenizers: small tokenizers, trained here, and ids that their own libraries give for many texts.

NAME.json          a tokenizer.json made by Hugging Face tokenizers; for names of GGUF pre-tokenizers the same as theirs
cases.json         {NAME: [{"text", "ids", maybe "decoded"}]}: special tokens parsed, nothing added around the text
sentencepiece.json {NAME: {"tokens", "scores", "types", "prefix", "cases"}}: score BPE as GGUF stores it
Needs the packages tokenizers 0.23 and sentencepiece 0.2; run it again only to change the data.
"""
import io
import json
import random
from pathlib import Path

import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

OUT = Path(__file__).resolve().parent / "tokenizers"
MARK = "\u2581"

CORPUS = """The quick brown fox jumps over the lazy dog. It's what they're saying: we'll see, I'd say, you've been there.
In 1984 there were 12 345 people; by 2024 the count was 67890 (an increase of 450%).
def add(a, b):
    return a + b  # the sum of both
for (int i = 0; i < 10; ++i) {\n\tprintf("%d\\n", i);\n}
これは日本語の文です。世界の人々は言葉を話します。言葉の世界。
这是一个中文句子。世界上有很多语言,语言的世界。
Это предложение на русском языке. Мир языков и людей.
Ça va très bien, merci beaucoup. L'été est déjà là; où êtes-vous?
Das Mädchen größer als der Fluß; schöne Grüße aus München.
שלום עולם. مرحبا بالعالم. हिन्दी में नमस्ते दुनिया।
The people of the world speak the languages of the world. There is the other one, and the next.
https://example.org/path?query=value&other=1  <div class="box">text</div>
""" * 4

WORDS = ["the", "The", " the", "world", " people", "'s", "'S", "'re", "'LL", "'d", "'x", "'", "1", "12", "123", "1234567",
         "\u0661\u0662", "\u00b2", "\u216b", " ", "  ", "    ", "\t", "\n", "\r\n", "\n\n", "\r", "\v", "\f", "\u00a0",
         "\u3000", "\u2003", "\u2028", "\u0085", "\u180e", "\u200b", "\u200d", "\ufeff", "\u00e9", "e\u0301", "o\u0308\u0323",
         "\u4e16\u754c", "\u65e5", "\u3053\u308c", "\uac00", "\u1100\u1161", "\U0001f999", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
         "\u20ac", ".", "...", "!?", "(", ")", "{}", "_", "__init__", "-", "\u2014", "\u201c", "\u2581", "<", ">", "&", "\\", "/",
         "#", "\u00df", "\u017f", "'\u017f", "\u212a", "\u0130", "I", "A", "Zz", "\u0416", "\u0936\u094d", "\u0e01\u0e33", "\x00", "\x7f", "\U0010ffff"]

FIXED = ["", " ", "  ", "   ", "\n", " \n", "\n ", "a", " a", "a ", "  a  ", "\ta\t", "Hello, y'all! How are you?",
         "They'll say it's what I'VE DONE; we'd've gone.", "1 12 123 1234 12345 1234567890.5e-10", "x1y22z333",
         "line\r\nline\r\n\r\nend", "trailing   ", "   leading", "tab\t\ttab \t mixed", "a\u00a0b \u00a0c", "no\u200dbreak",
         "\u4e16\u754c\u306e\u8a00\u8449 and English", "caf\u00e9 cafe\u0301", "\U0001f999 \U0001f468\u200d\U0001f469",
         "for (int i = 0; i < 10; ++i) {\n\treturn;\n}", "https://example.org/a?b=c&d=%20", "....!!!???", "a" * 50, " " * 50,
         "\n" * 20, "'" * 7, "-" * 33, "end<|end|>more", "<s>a</s> b", "<tool> <tool>x<tool>", "<|end|><|end|> ",
         "word<strip>word", "a  <strip>  b", "\u00a0<strip>\n\tb", "oneWORDtwo WORD three", "WORDS WORD", "norm Norm  norm"]


def texts():
    choose = random.Random(7)
    return FIXED + ["".join(choose.choices(WORDS, k=choose.randint(1, 12))) for _ in range(90)]


def added(tokenizer, special=("<unk>", "<s>", "</s>", "<|end|>")):
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False)])
    return tokenizer


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")


def byte_level(cut, normalizer=None, ignore_merges=False, use_regex=True, vocab=700):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        tokenizer.normalizer = normalizer
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*cut, level]) if cut else level
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator([CORPUS], trainer)
    return added(tokenizer)


def characters(normalizer, pre_tokenizer, strip, vocab=600, special=True):
    """BPE over characters with byte tokens, as converted SentencePiece models have it."""
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Replace(" ", MARK)
    trained.pre_tokenizer = pre_tokenizers.Split(MARK, "merged_with_next")
    trained.train_from_iterator([CORPUS], trainers.BpeTrainer(vocab_size=vocab, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    pieces += sorted(model["vocab"], key=model["vocab"].get)
    merges = [tuple(m) for m in model["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={p: i for i, p in enumerate(pieces)}, merges=merges, unk_token="<unk>",
                                     fuse_unk=True, byte_fallback=True))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    steps = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps + ([decoders.Strip(" ", 1, 0)] if strip else []))
    return added(tokenizer) if special else tokenizer


def flags():
    """Every flag of added tokens, and the pre-tokenizer steps that the others leave out."""
    tokenizer = Tokenizer(models.BPE(unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Punctuation("contiguous"),
        pre_tokenizers.Split(Regex(r"[a-z]+"), "merged_with_next", invert=True), pre_tokenizers.Split("x", "removed")])
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["?"], show_progress=False)
    tokenizer.train_from_iterator([CORPUS], trainer)
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(r"\s\s+"), " "),
                                                 normalizers.Replace("N", "n")])
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_tokens([AddedToken("<strip>", lstrip=True, rstrip=True, normalized=False),
                          AddedToken("WORD", single_word=True, normalized=False), AddedToken("Norm", normalized=True),
                          AddedToken("<tool>", rstrip=True), AddedToken("<tool>x", lstrip=True)])
    return tokenizer


def with_bos(tokenizer):
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))])
    return tokenizer


def all_tokenizers():
    digits = pre_tokenizers.Digits(individual_digits=True)
    yield "smollm", byte_level([digits])
    yield "gpt-2", byte_level([])
    yield "llama-bpe", with_bos(byte_level([pre_tokenizers.Split(Regex(LLAMA3), "isolated")], None, True, False))
    yield "qwen2", byte_level([pre_tokenizers.Split(Regex(QWEN2), "isolated")], normalizers.NFC(), False, False)
    replace = normalizers.Replace(" ", MARK)
    yield "llama-2", with_bos(characters(normalizers.Sequence([normalizers.Prepend(MARK), replace]), None, True))
    yield "gemma", characters(replace, pre_tokenizers.Split(" ", "merged_with_previous"), False)
    yield "metaspace-first", characters(None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False), True)
    yield "metaspace-split", characters(None, pre_tokenizers.Metaspace(prepend_scheme="always", split=True), True)
    prefix = byte_level([])
    prefix.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    yield "prefix-space", prefix
    yield "flags", flags()


def hugging_face():
    cases = {}
    for name, tokenizer in all_tokenizers():
        text = tokenizer.to_str()
        tokenizer = Tokenizer.from_str(text)
        (OUT / f"{name}.json").write_text(json.dumps(json.loads(text), ensure_ascii=True, separators=(",", ":")) + "\n")
        cases[name] = []
        for t in texts():
            ids = tokenizer.encode(t, add_special_tokens=False).ids
            cases[name].append({"text": t, "ids": ids})
            if name != "flags":  # its normalised tokens decode to their normalised text
                cases[name][-1]["decoded"] = tokenizer.decode(ids, skip_special_tokens=False)
    return cases


def sentence_piece(prefix, user_defined):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS.splitlines() * 3), model_writer=model, model_type="bpe", vocab_size=1000,
        byte_fallback=True, add_dummy_prefix=prefix, remove_extra_whitespaces=False, normalization_rule_name="identity",
        user_defined_symbols=user_defined, control_symbols=["<|end|>"], character_coverage=0.99,
        minloglevel=2)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    ids = range(processor.get_piece_size())
    kinds = [(processor.is_unknown, 2), (processor.is_control, 3), (processor.is_unused, 5), (processor.is_byte, 6)]
    types = [next((kind for test, kind in kinds if test(i)), 1) for i in ids]
    tokens = [processor.id_to_piece(i) for i in ids]
    for i, token in enumerate(tokens):
        if token in user_defined:
            types[i], tokens[i] = 4, token.replace(MARK, " ")
    usable = [t for t in texts() if MARK not in t and "\0" not in t]
    cases = [{"text": t, "ids": processor.encode(t)} for t in usable]
    return {"prefix": prefix, "tokens": tokens, "scores": [processor.get_score(i) for i in ids], "types": types, "cases": cases}


def write(name, value):
    (OUT / name).write_text(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    write("cases.json", hugging_face())
    write("sentencepiece.json", {
        "dummy prefix": sentence_piece(True, []),
        "no prefix": sentence_piece(False, ["<tool>", "\n", MARK * 2, MARK * 3])})
