#!/usr/bin/env python3
"""Makes the tiny models of tests/data/models/variants: settings of the families that the other models there lack.

usage: make_models.py OUT        (needs torch, transformers, safetensors, gguf, numpy)
Each folder or file NAME comes with NAME.golden.safetensors: `ids` and the `logits` [ids, vocab] that Transformers
computes in double precision from the weights as stored. Weights, norms and biases are random and none is zero.
"""
import json, os, shutil, sys
import numpy as np, torch, transformers as tf
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter
from gguf.quants import dequantize, quantize
from safetensors.torch import save_file

OUT = sys.argv[1]
F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
SMALL = dict(vocab_size=61, hidden_size=40, intermediate_size=72, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=96, attn_implementation="eager")


def make(model_class, config, dtype, seed):
    """A model with random weights that are exact in `dtype`, computing in double."""
    torch.manual_seed(seed)
    model = model_class(config).double().eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            gemma = "gemma" in config.model_type
            if p.ndim == 1:
                centre = 0.0 if gemma or name.endswith("bias") else 1.0
                p.copy_(centre + 0.3 * torch.randn(p.shape))
            else:
                p.copy_(torch.randn(p.shape) * (1.0 if "embed_tokens" in name else 1.6) / p.shape[-1] ** 0.5)
            p.copy_(p.to(dtype).double())
        for name, b in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                b.copy_((0.2 * torch.randn(b.shape)).to(dtype))
    return model


def golden(name, model, ids=45, vocab=61):
    torch.manual_seed(99)
    prompt = torch.randint(0, vocab, (ids,))
    with torch.no_grad():
        logits = model(input_ids=prompt[None]).logits[0]
    save_file({"ids": prompt, "logits": logits.float().contiguous()}, f"{OUT}/{name}.golden.safetensors")
    print(f"{name}: standard deviation of the logits {logits.std():.2f}")


def folder(name, model, dtype, edit=lambda c: c, rename=lambda n: n, extra={}, shards=1):
    path = f"{OUT}/{name}"
    shutil.rmtree(path, ignore_errors=True)
    golden(name, model)
    model.to(dtype).save_pretrained(path)
    from safetensors.torch import load_file
    tensors = {rename(k): v for k, v in load_file(f"{path}/model.safetensors").items()} | extra
    os.remove(f"{path}/model.safetensors")
    names = sorted(tensors)
    index = {}
    for i in range(shards):
        file = "model.safetensors" if shards == 1 else f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        save_file({k: tensors[k].contiguous() for k in names[i::shards]}, f"{path}/{file}")
        index |= {k: file for k in names[i::shards]}
    if shards > 1:
        json.dump({"metadata": {}, "weight_map": index}, open(f"{path}/model.safetensors.index.json", "w"))
    config = edit(json.load(open(f"{path}/config.json")))
    json.dump(config, open(f"{path}/config.json", "w"), indent=1)
    for other in os.listdir(path):
        if other == "generation_config.json":
            os.remove(f"{path}/{other}")


def older(c, key="type"):
    """rope_parameters and dtype as files spelled them before."""
    rope = c.pop("rope_parameters")
    c["torch_dtype"] = c.pop("dtype")
    c["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    c["rope_scaling"] = None if kind == "default" else {key: kind} | rope
    return c


def without(*names):
    return lambda c: {k: v for k, v in c.items() if k not in names}


# ---- folders ---------------------------------------------------------------------------------------------------------

def folders():
    m = make(tf.LlamaForCausalLM, tf.LlamaConfig(**SMALL | dict(num_key_value_heads=1, head_dim=24), attention_bias=True,
             mlp_bias=True, hidden_act="gelu_pytorch_tanh", tie_word_embeddings=False,
             rope_parameters={"rope_type": "linear", "factor": 3.0, "rope_theta": 700.0}), F16, 1)
    folder("llama_bias_linear", m, F16, lambda c: older(c) | {"initializer_range": float("nan"), "pretraining_tp": 1},
           extra={"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(12)}, shards=3)
    m = make(tf.LlamaForCausalLM, tf.LlamaConfig(**SMALL | dict(num_hidden_layers=2), rms_norm_eps=1e-2,
             tie_word_embeddings=False, rope_parameters={"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
             "high_freq_factor": 3.0, "rope_theta": 500.0, "original_max_position_embeddings": 20}), F32, 2)
    folder("llama_llama3", m, F32)
    m = make(tf.Qwen2ForCausalLM, tf.Qwen2Config(**SMALL | dict(max_position_embeddings=128), use_sliding_window=True, sliding_window=9,
             max_window_layers=1), BF16, 3)
    folder("qwen2_window", m, BF16, lambda c: older(without("layer_types")(c)))
    m = make(tf.Qwen2ForCausalLM, tf.Qwen2Config(**SMALL, use_sliding_window=True, sliding_window=5, max_window_layers=3,
             layer_types=["sliding_attention", "full_attention", "sliding_attention"], tie_word_embeddings=True), F16, 4)
    folder("qwen2_list", m, F16)
    m = make(tf.Qwen3ForCausalLM, tf.Qwen3Config(**SMALL | dict(head_dim=80, num_hidden_layers=2), attention_bias=True,
             use_sliding_window=True, sliding_window=7, layer_types=["full_attention", "sliding_attention"]), F32, 5)
    folder("qwen3_window_bias", m, F32)
    gemma = SMALL | dict(num_hidden_layers=3, head_dim=16, sliding_window=6, query_pre_attn_scalar=11)
    # attn_logit_softcapping is carried along by this architecture and never applied.
    m = make(tf.Gemma3ForCausalLM, tf.Gemma3TextConfig(**gemma, final_logit_softcapping=3.0, attention_bias=True,
             layer_types=["full_attention", "sliding_attention", "full_attention"],
             rope_parameters={"full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 9000.0},
                              "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}}), F32, 6)
    folder("gemma3_list_cap", m, F32, lambda c: c | {"attn_logit_softcapping": 2.0})
    text = tf.Gemma3TextConfig(**without("attn_implementation")(gemma) | dict(num_hidden_layers=4), sliding_window_pattern=2)
    vision = dict(model_type="siglip_vision_model", hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                  num_attention_heads=2, image_size=8, patch_size=4, vision_use_head=False)
    wrapper = tf.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4, boi_token_index=58,
                              eoi_token_index=59, image_token_index=60, attn_implementation="eager")
    m = make(tf.Gemma3ForConditionalGeneration, wrapper, BF16, 7)

    def outer(n):  # as files were laid out at first
        for new, old in (("model.language_model.", "language_model.model."), ("model.vision_tower.", "vision_tower."),
                         ("model.multi_modal_projector.", "multi_modal_projector.")):
            if n.startswith(new):
                return old + n[len(new):]
        return n

    def inner(n):
        for new, old in (("model.language_model.", "language_model.model."), ("model.vision_tower.", "vision_tower."),
                         ("model.multi_modal_projector.", "multi_modal_projector.")):
            if n.startswith(old):
                return new + n[len(old):]
        return n
    folder("gemma3_wrapped", m, BF16, rename=inner)
    m = make(tf.Gemma3ForConditionalGeneration, wrapper, BF16, 8)
    folder("gemma3_wrapped_older", m, BF16, rename=outer)


# ---- latent attention ------------------------------------------------------------------------------------------------

def latents():
    sizes = SMALL | dict(num_key_value_heads=4, num_hidden_layers=2, kv_lora_rank=24, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=12,
                         moe_intermediate_size=16, n_routed_experts=6, num_experts_per_tok=2, experts_implementation="eager")
    yarn = dict(rope_type="yarn", factor=3.0, original_max_position_embeddings=32, beta_fast=3.0, beta_slow=0.5,
                rope_theta=200.0)
    m = make(tf.DeepseekV2ForCausalLM, tf.DeepseekV2Config(**sizes, q_lora_rank=None, first_k_dense_replace=1,
             topk_method="greedy", n_group=1, topk_group=1, n_shared_experts=1,
             rope_parameters={"rope_type": "default", "rope_theta": 300.0}), F16, 21)
    folder("deepseek_v2_plain", m, F16)
    v3 = sizes | dict(q_lora_rank=20, first_k_dense_replace=1, n_group=3, topk_group=2, n_shared_experts=2,
                      routed_scaling_factor=1.3)
    m = make(tf.DeepseekV3ForCausalLM, tf.DeepseekV3Config(**v3, attention_bias=True,
             rope_parameters=yarn | dict(mscale=0.8, mscale_all_dim=0.6)), BF16, 22)
    folder("deepseek_v3_yarn", m, BF16, older)
    m = make(tf.DeepseekV3ForCausalLM, tf.DeepseekV3Config(**v3, norm_topk_prob=False, rope_interleave=False,
             rope_parameters=yarn | dict(mscale_all_dim=0.7)), F16, 23)
    folder("deepseek_v3_halves", m, F16)
    m = make(tf.DeepseekV32ForCausalLM, tf.DeepseekV32Config(**v3, index_topk=7, index_head_dim=20, index_n_heads=16,
             rope_parameters=yarn | dict(mscale=1.0, mscale_all_dim=1.0)), BF16, 24)
    folder("deepseek_v32", m, BF16)


# ---- GGUF ------------------------------------------------------------------------------------------------------------

STEMS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
LAYER = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
         "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
         "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
GEMMA = LAYER | {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
                 "post_feedforward_layernorm": "post_ffw_norm"}


def gguf_name(name, gemma):
    stem, suffix = name.rsplit(".", 1)
    if stem in STEMS:
        return f"{STEMS[stem]}.{suffix}"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{(GEMMA if gemma else LAYER)[rest]}.{suffix}"


def side_by_side(w, heads):
    """Rows of each head from halves to interleaved pairs, as converters store llama's queries and keys."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def random_blocks(shape, kind, rng):
    """Random blocks of a K storage with scales that keep the matrix at unit gain, and the numbers they stand for."""
    elements, size = GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, (shape[0], shape[1] // elements, size), dtype=np.uint8)
    deviation = {GGMLQuantizationType.Q4_K: 4.61 * 36.4, GGMLQuantizationType.Q5_K: 9.23 * 36.4,
                 GGMLQuantizationType.Q6_K: 18.5 * 73.9}[kind]
    scale = 1.6 / shape[1] ** 0.5 / deviation
    half = lambda x: np.frombuffer(np.float16(x).tobytes(), np.uint8)
    if kind == GGMLQuantizationType.Q6_K:
        raw[..., 208:] = half(scale)
    else:
        raw[..., :2], raw[..., 2:4] = half(scale), half(scale * (7.5 if kind == GGMLQuantizationType.Q4_K else 15.5))
    raw = raw.reshape(shape[0], -1)
    return raw, dequantize(raw, kind)


def quantised(model, kinds, seed):
    """Rounds a model's matrices to the storages that `kinds` picks by name; {name: (bytes, storage)}."""
    rng, stored = np.random.default_rng(seed), {}
    with torch.no_grad():
        for name, p in model.named_parameters():
            kind = kinds(name)
            if kind is None:
                continue
            if kind.name.endswith("_K"):
                raw, x = random_blocks(p.shape, kind, rng)
            else:
                raw = quantize(p.numpy().astype(np.float32), kind)
                x = dequantize(raw, kind)
            p.copy_(torch.from_numpy(x).double())
            stored[name] = raw, kind
    return stored


def gguf(name, model, arch, keys, half=False, permute=False, extra={}, stored={}):
    golden(name, model)
    c = model.config
    head_dim = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    w = GGUFWriter(f"{OUT}/{name}.gguf", arch)
    w.add_block_count(c.num_hidden_layers)
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv(c.num_key_value_heads)
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    w.add_key_length(head_dim)
    w.add_value_length(head_dim)
    for key, value in keys.items():
        {bool: w.add_bool, int: w.add_uint32, float: w.add_float32, str: w.add_string, list: w.add_array}[type(value)](
            f"{arch}.{key}", value)
    for hf, p in model.state_dict().items():
        if hf == "lm_head.weight" and c.tie_word_embeddings:
            continue
        if hf in stored:
            raw, kind = stored[hf]
            if "q_proj" in hf or "k_proj" in hf:
                raw = side_by_side(raw, c.num_attention_heads if "q_proj" in hf else c.num_key_value_heads)
            w.add_tensor(gguf_name(hf, False), raw, raw_dtype=kind)
            continue
        x = p.numpy().astype(np.float32)
        if permute and ("q_proj" in hf or "k_proj" in hf):
            x = side_by_side(x, c.num_attention_heads if "q_proj" in hf else c.num_key_value_heads)
        if arch == "gemma3" and hf.endswith("norm.weight"):
            x = x + 1
        w.add_tensor(gguf_name(hf, arch == "gemma3"), x.astype(np.float16) if half and x.ndim == 2 else x)
    for key, value in extra.items():
        w.add_tensor(key, value)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def ggufs():
    scaled = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=3.0, rope_theta=500.0,
                  original_max_position_embeddings=20)
    m = make(tf.LlamaForCausalLM, tf.LlamaConfig(**SMALL | dict(num_hidden_layers=2), attention_bias=True, mlp_bias=True,
             tie_word_embeddings=False, rope_parameters=scaled), F16, 11)
    plain = 500.0 ** (-np.arange(0, 10, 2) / 10)
    divisors = (plain / m.model.rotary_emb.inv_freq.double().numpy()).astype(np.float32)
    gguf("gguf_llama_freqs", m, "llama", {"rope.freq_base": 500.0, "rope.dimension_count": 10, "vocab_size": 61},
         half=True, permute=True, extra={"rope_freqs.weight": divisors})
    m = make(tf.LlamaForCausalLM, tf.LlamaConfig(**SMALL | dict(num_hidden_layers=2), tie_word_embeddings=True,
             rope_parameters={"rope_type": "linear", "factor": 3.0, "rope_theta": 700.0}), F32, 12)
    gguf("gguf_llama_linear", m, "llama", {"rope.freq_base": 700.0, "rope.scaling.type": "linear", "rope.scaling.factor": 3.0},
         permute=True)
    m = make(tf.Qwen2ForCausalLM, tf.Qwen2Config(**SMALL | dict(num_hidden_layers=2)), F16, 13)
    gguf("gguf_qwen2", m, "qwen2", {"rope.freq_base": 10000.0}, half=True)
    m = make(tf.Qwen3ForCausalLM, tf.Qwen3Config(**SMALL | dict(num_hidden_layers=2, head_dim=24, num_key_value_heads=1),
             tie_word_embeddings=True), F16, 14)
    gguf("gguf_qwen3", m, "qwen3", {"rope.freq_base": 10000.0}, half=True)
    gemma = SMALL | dict(head_dim=32, sliding_window=6, query_pre_attn_scalar=32, max_position_embeddings=256)
    m = make(tf.Gemma3ForCausalLM, tf.Gemma3TextConfig(**gemma | dict(num_hidden_layers=7, head_dim=16, query_pre_attn_scalar=16),
             rope_parameters={"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5000.0},
                              "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}), F16, 15)
    gguf("gguf_gemma3_bare", m, "gemma3", {"rope.freq_base": 5000.0, "rope.scaling.type": "linear",
         "rope.scaling.factor": 8.0, "attention.sliding_window": 6}, half=True)
    m = make(tf.Gemma3ForCausalLM, tf.Gemma3TextConfig(**gemma, sliding_window_pattern=2, final_logit_softcapping=3.0,
             rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 5000.0},
                              "sliding_attention": {"rope_type": "default", "rope_theta": 200.0}}), F32, 16)
    gguf("gguf_gemma3_pattern", m, "gemma3", {"rope.freq_base": 5000.0, "rope.freq_base_swa": 200.0,
         "attention.sliding_window": 6, "attention.sliding_window_pattern": 2, "final_logit_softcapping": 3.0})


    T = GGMLQuantizationType
    m = make(tf.LlamaForCausalLM, tf.LlamaConfig(**SMALL | dict(hidden_size=256, intermediate_size=256, head_dim=32,
             num_hidden_layers=2, max_position_embeddings=1200), tie_word_embeddings=True), F32, 17)
    by_layer = [dict(q=T.Q4_K, k=T.Q5_K, v=T.Q6_K, o=T.Q4_1, gate=T.Q4_K, up=T.Q5_0, down=T.Q6_K),
                dict(q=T.Q8_0, k=T.Q5_1, v=T.Q4_0, o=T.Q8_0, gate=T.Q4_1, up=T.Q5_K, down=T.Q4_K)]

    def storage(name):
        if name.endswith("norm.weight"):
            return None
        if "layers" not in name:
            return T.Q8_0
        return by_layer[int(name.split(".")[2])][name.split(".")[-2].split("_")[0]]
    gguf("gguf_llama_blocks", m, "llama", {"rope.freq_base": 10000.0}, permute=True, stored=quantised(m, storage, 18))


LATENT = {"self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
          "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
          "self_attn.kv_b_proj": "attn_kv_b", "mlp.gate": "ffn_gate_inp", "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
          "mlp.shared_experts.up_proj": "ffn_up_shexp", "mlp.shared_experts.down_proj": "ffn_down_shexp"}


def latent_gguf(name, model, split):
    """deepseek2 as converters write it: one tensor for what makes keys and values, or since 2025 two (`split`)."""
    golden(name, model)
    c, rope = model.config, model.config.rope_parameters
    w = GGUFWriter(f"{OUT}/{name}.gguf", "deepseek2")
    w.add_block_count(c.num_hidden_layers)
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    w.add_feed_forward_length(c.intermediate_size)
    w.add_head_count(c.num_attention_heads)
    w.add_head_count_kv(1 if split else c.num_attention_heads)
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    w.add_key_length(c.kv_lora_rank + c.qk_rope_head_dim if split else c.qk_head_dim)
    w.add_value_length(c.kv_lora_rank if split else c.v_head_dim)
    if split:
        w.add_key_length_mla(c.qk_head_dim)
        w.add_value_length_mla(c.v_head_dim)
    w.add_vocab_size(c.vocab_size)
    w.add_kv_lora_rank(c.kv_lora_rank)
    if c.q_lora_rank:
        w.add_q_lora_rank(c.q_lora_rank)
    w.add_rope_dimension_count(c.qk_rope_head_dim)
    w.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "yarn":
        w.add_string("deepseek2.rope.scaling.type", "yarn")
        w.add_rope_scaling_factor(rope["factor"])
        w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        w.add_float32("deepseek2.rope.scaling.yarn_log_multiplier", 0.1 * rope["mscale_all_dim"])
    w.add_leading_dense_block_count(c.first_k_dense_replace)
    w.add_expert_count(c.n_routed_experts)
    w.add_expert_used_count(c.num_experts_per_tok)
    w.add_expert_shared_count(c.n_shared_experts)
    w.add_expert_feed_forward_length(c.moe_intermediate_size)
    w.add_expert_weights_scale(c.routed_scaling_factor)
    v3 = c.model_type == "deepseek_v3"
    w.add_uint32("deepseek2.expert_gating_func", 2 if v3 else 1)
    w.add_expert_weights_norm(v3)
    if v3:
        w.add_uint32("deepseek2.expert_group_count", c.n_group)
        w.add_uint32("deepseek2.expert_group_used_count", c.topk_group)
    for hf, p in model.state_dict().items():
        x = p.numpy().astype(np.float32)
        x = x.astype(np.float16) if x.ndim > 1 else x
        if not hf.startswith("model.layers."):
            w.add_tensor(gguf_name(hf, False), x)
            continue
        _, _, layer, rest = hf.split(".", 3)
        at = f"blk.{layer}."
        if rest == "mlp.experts.gate_up_proj":
            w.add_tensor(at + "ffn_gate_exps.weight", np.ascontiguousarray(x[:, :c.moe_intermediate_size]))
            w.add_tensor(at + "ffn_up_exps.weight", np.ascontiguousarray(x[:, c.moe_intermediate_size:]))
        elif rest == "mlp.experts.down_proj":
            w.add_tensor(at + "ffn_down_exps.weight", x)
        elif rest == "mlp.gate.e_score_correction_bias":
            w.add_tensor(at + "exp_probs_b.bias", x)
        elif rest == "self_attn.kv_b_proj.weight" and split:
            heads = x.reshape(c.num_attention_heads, -1, c.kv_lora_rank)
            w.add_tensor(at + "attn_k_b.weight", np.ascontiguousarray(heads[:, :c.qk_nope_head_dim].swapaxes(1, 2)))
            w.add_tensor(at + "attn_v_b.weight", np.ascontiguousarray(heads[:, c.qk_nope_head_dim:]))
        else:
            stem, suffix = rest.rsplit(".", 1)
            w.add_tensor(f"{at}{(LAYER | LATENT)[stem]}.{suffix}", x)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def latent_ggufs():
    sizes = SMALL | dict(num_key_value_heads=4, num_hidden_layers=2, kv_lora_rank=24, qk_nope_head_dim=16,
                         qk_rope_head_dim=8, v_head_dim=12, moe_intermediate_size=16, n_routed_experts=6,
                         num_experts_per_tok=2, first_k_dense_replace=1, experts_implementation="eager")
    m = make(tf.DeepseekV2ForCausalLM, tf.DeepseekV2Config(**sizes, q_lora_rank=None, topk_method="greedy", n_group=1,
             topk_group=1, n_shared_experts=1, rope_parameters={"rope_type": "default", "rope_theta": 300.0}), F16, 31)
    latent_gguf("gguf_deepseek2_whole", m, split=False)
    m = make(tf.DeepseekV3ForCausalLM, tf.DeepseekV3Config(**sizes, q_lora_rank=20, n_group=3, topk_group=2,
             n_shared_experts=2, routed_scaling_factor=1.3, rope_parameters=dict(rope_type="yarn", factor=3.0,
             original_max_position_embeddings=32, rope_theta=10000.0, mscale=1.0, mscale_all_dim=1.0)), F16, 32)
    latent_gguf("gguf_deepseek2_split", m, split=True)


if __name__ == "__main__":
    os.makedirs(OUT, exist_ok=True)
    folders()
    latents()
    ggufs()
    latent_ggufs()
