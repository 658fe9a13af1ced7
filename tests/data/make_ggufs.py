#!/usr/bin/env python3
"""Writes the tiny models of this folder as GGUF: make_ggufs.py [NAME ...]        (needs torch, safetensors, gguf)

Names of tensors come from the package gguf; what a converter changes in them is said family by family below. Numbers
that stay as they are keep their type, others become float32, so the logits are those of the safetensors files.
"""
import json
import math
import os
import sys

import gguf
import numpy as np
import torch
from safetensors.torch import load_file

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
OUT = os.path.join(MODELS, "gguf")


def pairs_in_turns(x, heads):
    """Rows of rotated heads: entry i of a head's first half in front of entry i of its second."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, -1).transpose(1, 2).reshape(x.shape)


def heads_tiled(x, c, size, dim=0):
    """Value heads in the order of their number within a key head; `size` entries each along `dim`."""
    keys, values = c["linear_num_key_heads"], c["linear_num_value_heads"]
    shape = x.shape
    x = x.reshape(*shape[:dim], keys, values // keys, size, *shape[dim + 1:])
    return x.transpose(dim, dim + 1).reshape(shape)


# ---- what changes in tensors: (name, numbers, config) -> [(name, numbers)] ----------------------------------------

def same(name, x, c):
    return [(name, x)]


def scan_parts(name, x, c):
    """What all families with scans do: -exp(A_log), flat kernels, a bias' name."""
    if name.endswith("A_log"):
        x = -torch.exp(x.float())
    if "conv" in name and x.dim() == 3:
        x = x.squeeze(1)
    return name.replace(".dt_bias", ".dt_proj.bias"), x


def mamba(name, x, c):
    return [scan_parts(name, x, c)]


def mamba2(name, x, c):
    groups = c.get("n_groups") or c.get("mamba_n_groups")
    name, x = scan_parts(name, x, c)
    if name.endswith(("A_log", ".D")):
        x = x.reshape(-1, 1)
    if name.endswith(("mamba.norm.weight", "mixer.norm.weight")):
        x = x.reshape(groups, -1)
    return [(name, x)]


def falcon_h1(name, x, c):
    (name, x), = mamba2(name, x, c)
    into = c["attention_in_multiplier"]
    factor = {"q_proj": into, "k_proj": into * c["key_multiplier"], "v_proj": into, "o_proj": c["attention_out_multiplier"],
              "gate_proj": c["mlp_multipliers"][0], "down_proj": c["mlp_multipliers"][1], "out_proj": c["ssm_out_multiplier"],
              "lm_head": c["lm_head_multiplier"], "embed_tokens": c["embedding_multiplier"]}.get(name.split(".")[-2])
    if factor is not None:
        x = x.float() * factor
    if name.endswith("in_proj.weight"):
        inner, keys = c["mamba_d_ssm"], c["mamba_n_groups"] * c["mamba_d_state"]
        rows = [inner, inner, keys, keys, c["mamba_n_heads"]]
        x = x.float() * c["ssm_in_multiplier"] * torch.repeat_interleave(torch.tensor(c["ssm_multipliers"]), torch.tensor(rows))[:, None]
    return [(name, x)]


def granite(name, x, c):
    (name, x), = mamba2(name, x, c)
    if ".q_proj" in name or ".k_proj" in name:
        x = pairs_in_turns(x, c["num_attention_heads" if ".q_proj" in name else "num_key_value_heads"])
    routed = c.get("num_local_experts", 0) > 0
    at = name.rsplit("." + name.split(".", 3)[3], 1)[0] if name.startswith("model.layers.") else ""
    if name.endswith("input_linear.weight"):
        gate, up = x.chunk(2, dim=-2)
        kind = "exps" if "block_sparse_moe" in name else "shexp" if routed else ""
        stems = {"exps": "mlp.experts", "shexp": "mlp.shared_experts", "": "mlp"}[kind]
        return [(f"{at}.{stems}.gate_proj.weight", gate), (f"{at}.{stems}.up_proj.weight", up)]
    if "shared_mlp.output_linear" in name and not routed:
        name = f"{at}.mlp.down_proj.weight"
    return [(name, x)]


def nemotron_h(name, x, c):
    (name, x), = mamba2(name, x, c)
    if ".q_proj" in name or ".k_proj" in name:
        x = pairs_in_turns(x, c["num_attention_heads" if ".q_proj" in name else "num_key_value_heads"])
    return [(name.replace(".dt_proj.bias", ".dt.bias").replace("e_score_correction_bias", "e_score_correction.bias"), x)]


def qwen3_next(name, x, c):
    name, x = scan_parts(name, x, c)
    if name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight"):
        x = x.float() + 1
    if name.endswith("in_proj_qkvz.weight"):
        keys, group = c["linear_num_key_heads"], c["linear_num_value_heads"] // c["linear_num_key_heads"]
        k, v = c["linear_key_head_dim"], group * c["linear_value_head_dim"]
        q, k, v, z = (part.reshape(-1, x.shape[1]) for part in x.reshape(keys, -1, x.shape[1]).split([k, k, v, v], dim=1))
        return [(name.replace("qkvz", "qkv"), torch.cat([q, k, v])), (name.replace("qkvz", "z"), z)]
    return [(name, x)]


def qwen3_5(name, x, c):
    keys, size = 2 * c["linear_num_key_heads"] * c["linear_key_head_dim"], c["linear_value_head_dim"]
    if "linear_attn" in name:
        last = name.split("linear_attn.")[1]
        if last in ("in_proj_qkv.weight", "conv1d.weight"):
            x = torch.cat([x[:keys], heads_tiled(x[keys:], c, size)])
        elif last == "in_proj_z.weight":
            x = heads_tiled(x, c, size)
        elif last in ("in_proj_a.weight", "in_proj_b.weight", "A_log", "dt_bias"):
            x = heads_tiled(x, c, 1)
        elif last == "out_proj.weight":
            x = heads_tiled(x, c, size, dim=1)
    return qwen3_next(name, x, c)


def kimi_linear(name, x, c):
    name = name.replace(".block_sparse_moe.gate_proj", ".mlp.gate_proj").replace(
        ".block_sparse_moe.up_proj", ".mlp.up_proj").replace(".block_sparse_moe.down_proj", ".mlp.down_proj")
    if name.endswith("kv_b_proj.weight"):
        heads = x.reshape(c["num_attention_heads"], -1, x.shape[1])
        k, v = heads.split([c["qk_nope_head_dim"], c["v_head_dim"]], dim=1)
        return [(name.replace("kv_b", "k_b"), k.transpose(1, 2)), (name.replace("kv_b", "v_b"), v)]
    name, x = scan_parts(name, x, c)
    if "conv1d" in name:
        x = x.reshape(1, x.shape[0], 1, x.shape[1])
    return [(name.replace("e_score_correction_bias", "e_score_correction.bias"), x)]


def gpt_oss(name, x, c):
    stem = name.replace("_bias", ".bias") if name.endswith("_bias") else name + ".weight"
    if "experts.gate_up" in name:
        x = x if name.endswith("_bias") else x.transpose(1, 2)
        return [(stem.replace("gate_up_proj", "gate_proj"), x[:, ::2]), (stem.replace("gate_up_proj", "up_proj"), x[:, 1::2])]
    if "experts.down" in name:
        return [(stem, x if name.endswith("_bias") else x.transpose(1, 2))]
    return [(name + ".weight" if name.endswith("sinks") else name, x)]


def glm4_moe(name, x, c):
    return [(name.replace("e_score_correction_bias", "e_score_correction.bias"), x)]


# ---- what files say: (writer, config) ------------------------------------------------------------------------------

def head_keys(w, c, kv_heads=None):
    rope = c.get("rope_parameters") or {}
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(kv_heads or c["num_key_value_heads"])
    if rope:
        w.add_rope_freq_base(rope["rope_theta"])
    if c.get("head_dim"):
        w.add_key_length(c["head_dim"])
        w.add_value_length(c["head_dim"])
    if rope.get("rope_type") == "yarn":
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(rope["factor"])
        w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        w.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
        w.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])


def expert_keys(w, c, count, ff):
    w.add_expert_count(count)
    w.add_expert_used_count(c.get("num_experts_per_tok") or c["num_experts_per_token"])
    w.add_expert_feed_forward_length(ff)
    if "norm_topk_prob" in c:
        w.add_expert_weights_norm(c["norm_topk_prob"])
    if c.get("routed_scaling_factor"):
        w.add_expert_weights_scale(c["routed_scaling_factor"])
    if c.get("n_group", 1) > 1:
        w.add_expert_group_count(c["n_group"])
        w.add_expert_group_used_count(c["topk_group"])


def no_attention_keys(w, c):
    w.add_head_count(0)
    w.add_feed_forward_length(0)


def scan_keys(w, kernel, state, rank, inner, groups=None):
    w.add_ssm_conv_kernel(kernel)
    w.add_ssm_state_size(state)
    w.add_ssm_time_step_rank(rank)
    w.add_ssm_inner_size(inner)
    if groups:
        w.add_ssm_group_count(groups)


def mamba_keys(w, c):
    no_attention_keys(w, c)
    scan_keys(w, c["conv_kernel"], c["state_size"], c["time_step_rank"], c["intermediate_size"])
    w.add_ssm_dt_b_c_rms(False)


def mamba2_keys(w, c):
    no_attention_keys(w, c)
    scan_keys(w, c["conv_kernel"], c["state_size"], c["num_heads"], c["num_heads"] * c["head_dim"], c["n_groups"])


def mixer_keys(w, c):
    scan_keys(w, c["mamba_d_conv"], c["mamba_d_state"], c["mamba_n_heads"], c["mamba_n_heads"] * c["mamba_d_head"], c["mamba_n_groups"])


def falcon_h1_keys(w, c):
    head_keys(w, c)
    w.add_feed_forward_length(c["intermediate_size"])
    mixer_keys(w, c)


def per_layer(c, kinds, number):
    return [number if kind in kinds else 0 for kind in (c.get("layer_types") or c.get("layers_block_type"))]


def granite_keys(w, c):
    if "attn_layer_indices" in c:
        c = c | {"layer_types": ["attention" if i in c["attn_layer_indices"] else "mamba" for i in range(c["num_hidden_layers"])]}
    head_keys(w, c, per_layer(c, ("attention", "full_attention"), c["num_key_value_heads"]))
    w.add_feed_forward_length(c["intermediate_size"] if c.get("num_local_experts") or "layer_types" not in c else c.get("shared_intermediate_size", c["intermediate_size"]))
    mixer_keys(w, c)
    w.add_rope_scaling_finetuned(c["model_type"] == "bamba" or c["position_embedding_type"] == "rope")
    for key, add in (("attention_multiplier", w.add_attention_scale), ("embedding_multiplier", w.add_embedding_scale),
                     ("residual_multiplier", w.add_residual_scale), ("logits_scaling", w.add_logit_scale)):
        if key in c:
            add(c[key])
    if c.get("num_local_experts"):
        expert_keys(w, c, c["num_local_experts"], c["intermediate_size"])
        w.add_expert_shared_feed_forward_length(c["shared_intermediate_size"])


def nemotron_h_keys(w, c):
    head_keys(w, c, per_layer(c, ("full_attention",), c["num_key_value_heads"]))
    routed = "moe" in c["layers_block_type"]
    w.add_feed_forward_length(per_layer(c, ("moe", "mlp"), c["moe_intermediate_size" if routed else "intermediate_size"]))
    scan_keys(w, c["conv_kernel"], c["ssm_state_size"], c["mamba_num_heads"], c["mamba_num_heads"] * c["mamba_head_dim"], c["n_groups"])
    if routed:
        expert_keys(w, c, c["n_routed_experts"], c["moe_intermediate_size"])
        w.add_expert_shared_feed_forward_length(c["moe_shared_expert_intermediate_size"])
        w.add_expert_shared_count(c["n_shared_experts"])
        if c.get("moe_latent_size"):
            w.add_moe_latent_size(c["moe_latent_size"])


def qwen3_next_keys(w, c):
    head_keys(w, c)
    if "intermediate_size" in c:
        w.add_feed_forward_length(c["intermediate_size"])
    scan_keys(w, c["linear_conv_kernel_dim"], c["linear_key_head_dim"], c["linear_num_value_heads"],
              c["linear_num_value_heads"] * c["linear_value_head_dim"], c["linear_num_key_heads"])
    w.add_full_attention_interval(c["layer_types"].index("full_attention") + 1)
    w.add_rope_dimension_count(int(c["head_dim"] * c["rope_parameters"]["partial_rotary_factor"]))
    if "mrope_section" in c["rope_parameters"]:
        w.add_rope_dimension_sections(c["rope_parameters"]["mrope_section"] + [0])
    if c.get("num_experts"):
        expert_keys(w, c, c["num_experts"], c["moe_intermediate_size"])
        w.add_expert_shared_feed_forward_length(c["shared_expert_intermediate_size"])


def kimi_linear_keys(w, c):
    rope = c["qk_rope_head_dim"]
    head_keys(w, c | {"head_dim": None}, per_layer(c, ("full_attention",), 1))
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_ssm_conv_kernel(c["linear_conv_kernel_dim"])
    w.add_kda_head_dim(c["linear_head_dim"])
    w.add_kv_lora_rank(c["kv_lora_rank"])
    w.add_rope_dimension_count(rope)
    w.add_key_length(c["kv_lora_rank"] + rope)
    w.add_value_length(c["kv_lora_rank"])
    w.add_key_length_mla(c["qk_nope_head_dim"] + rope)
    w.add_value_length_mla(c["v_head_dim"])
    expert_keys(w, c, c["num_experts"], c["moe_intermediate_size"])
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    w.add_expert_shared_count(c["num_shared_experts"])
    w.add_leading_dense_block_count(c["mlp_layer_types"].index("sparse"))


def lfm2_keys(w, c):
    head_keys(w, c, per_layer(c, ("full_attention",), c["num_key_value_heads"]))
    multiple = c["block_multiple_of"]
    w.add_feed_forward_length(math.ceil(int(2 * c["intermediate_size"] / 3) / multiple) * multiple)
    w.add_shortconv_l_cache(c["conv_L_cache"])


def moe_keys(w, c):
    head_keys(w, c)
    w.add_feed_forward_length(c["intermediate_size"])
    count = c.get("num_experts") or c.get("num_local_experts") or c["n_routed_experts"]
    expert_keys(w, c, count, c.get("moe_intermediate_size", c["intermediate_size"]))
    if c.get("shared_expert_intermediate_size"):
        w.add_expert_shared_feed_forward_length(c["shared_expert_intermediate_size"])


def glm4_moe_keys(w, c):
    moe_keys(w, c)
    w.add_rope_dimension_count(int(c["head_dim"] * c["rope_parameters"]["partial_rotary_factor"]))
    w.add_expert_shared_count(c["n_shared_experts"])
    w.add_leading_dense_block_count(c["first_k_dense_replace"])
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    w.add_nextn_predict_layers(0)


def gpt_oss_keys(w, c):
    moe_keys(w, c)
    w.add_sliding_window(c["sliding_window"])


# ---- files -------------------------------------------------------------------------------------------------------------

A = gguf.MODEL_ARCH
CASES = {  # name: (folder, architecture, tensors, keys)
    "mamba": ("hybrids/mamba", A.MAMBA, mamba, mamba_keys),
    "mamba2": ("mamba2", A.MAMBA2, mamba2, mamba2_keys),
    "falcon_h1": ("hybrids/falcon_h1", A.FALCON_H1, falcon_h1, falcon_h1_keys),
    "bamba": ("hybrids/bamba_whole", A.GRANITE_HYBRID, granite, granite_keys),
    "granitemoehybrid": ("hybrids/granitemoehybrid", A.GRANITE_HYBRID, granite, granite_keys),
    "granitemoehybrid_dense": ("hybrids/granitemoehybrid_dense", A.GRANITE_HYBRID, granite, granite_keys),
    "nemotron_h": ("hybrids/nemotron_h_step", A.NEMOTRON_H, nemotron_h, nemotron_h_keys),
    "nemotron_h_latent": ("hybrids/nemotron_h_latent", A.NEMOTRON_H_MOE, nemotron_h, nemotron_h_keys),
    "qwen3_next": ("hybrids/qwen3_next", A.QWEN3NEXT, qwen3_next, qwen3_next_keys),
    "qwen3_5": ("hybrids/qwen3_5", A.QWEN35, qwen3_5, qwen3_next_keys),
    "qwen3_5_moe": ("hybrids/qwen3_5_moe", A.QWEN35MOE, qwen3_5, qwen3_next_keys),
    "kimi_linear": ("hybrids/kimi_linear", A.KIMI_LINEAR, kimi_linear, kimi_linear_keys),
    "lfm2": ("hybrids/lfm2", A.LFM2, mamba, lfm2_keys),
    "qwen2_moe": ("variants/qwen2_moe_norm", A.QWEN2MOE, same, moe_keys),
    "qwen3_moe": ("variants/qwen3_moe_plain", A.QWEN3MOE, same, moe_keys),
    "qwen3_moe_fused": ("variants/qwen3_moe_plain", A.QWEN3MOE, same, moe_keys),
    "glm4_moe": ("variants/glm4_moe_groups", A.GLM4_MOE, glm4_moe, glm4_moe_keys),
    "gpt_oss": ("variants/gpt_oss_yarn", A.GPT_OSS, gpt_oss, gpt_oss_keys),
    "gpt_oss_mxfp4": ("variants/gpt_oss_mxfp4", A.GPT_OSS, gpt_oss, gpt_oss_keys),
}
EXPERT = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}


def stacked(tensors):
    """Tensors of single experts as one for all."""
    out, experts = {}, {}
    for name, x in tensors.items():
        if ".experts." not in name or not name.split(".experts.")[1][0].isdigit():
            out[name] = x
            continue
        stem, rest = name.split(".experts.")
        layer = stem.split(".")[2]
        number, matrix = rest.split(".", 1)
        matrix = EXPERT.get(matrix.split(".")[0], matrix.split(".")[0])
        experts.setdefault(f"model.layers.{layer}.mlp.experts.{matrix}.weight", {})[int(number)] = x
    return out | {name: torch.stack([rows[i] for i in range(len(rows))]) for name, rows in experts.items()}


def blocks_of_pairs(blocks, scales):
    """gpt-oss's byte j holds elements 2j and 2j + 1, GGUF's j and j + 16; the scale comes first."""
    elements = torch.stack([blocks & 15, blocks >> 4], -1).flatten(-2)
    return torch.cat([scales[..., None], elements[..., :16] | elements[..., 16:] << 4], -1).flatten(-2)


def unpacked(tensors):
    """MXFP4 tensors of gpt-oss as GGUF names and bytes, taken out of `tensors`."""
    out = {}
    for blocks in [n for n in tensors if n.endswith("_blocks")]:
        stem, layer = blocks.removesuffix("_blocks"), blocks.split(".")[2]
        rows = blocks_of_pairs(tensors.pop(blocks), tensors.pop(stem + "_scales")).numpy()
        if stem.endswith("down_proj"):
            out[f"blk.{layer}.ffn_down_exps.weight"] = rows
        else:
            out[f"blk.{layer}.ffn_gate_exps.weight"] = np.ascontiguousarray(rows[:, ::2])
            out[f"blk.{layer}.ffn_up_exps.weight"] = np.ascontiguousarray(rows[:, 1::2])
    return out


def add(w, name, x):
    matrix = x.dim() > 1 and name.endswith(".weight") and "conv" not in name and "norm" not in name
    if x.dtype == torch.bfloat16 and matrix:
        w.add_tensor(name, x.contiguous().view(torch.uint8).numpy(), raw_dtype=gguf.GGMLQuantizationType.BF16)
    else:
        w.add_tensor(name, x.float().contiguous().numpy())


def fuse(tensors):
    """Gate and up of all experts in one tensor."""
    for name in [n for n in tensors if "ffn_gate_exps" in n]:
        gate, up = tensors.pop(name), tensors.pop(name.replace("gate", "up"))
        tensors[name.replace("gate", "gate_up")] = torch.cat([gate, up], dim=1)


def write(name):
    folder, arch, transform, keys = CASES[name]
    with open(f"{MODELS}/{folder}/config.json") as file:
        c = json.load(file)
    layers = c.get("num_hidden_layers") or len(c["layers_block_type"])
    tensors = stacked(load_file(f"{MODELS}/{folder}/model.safetensors"))
    raw = unpacked(tensors)
    names = gguf.get_tensor_name_map(arch, layers)
    converted = {}
    for hf, x in tensors.items():
        if f".layers.{layers}." in hf:  # a head that predicts further tokens
            continue
        for file_name, numbers in transform(hf, x, c):
            found = names.get_name(file_name, try_suffixes=(".weight", ".bias"))
            assert found, f"{name}: {file_name} has no name in GGUF"
            converted[found] = numbers
    if name.endswith("_fused"):
        fuse(converted)
    w = gguf.GGUFWriter(f"{OUT}/{name}.gguf", gguf.MODEL_ARCH_NAMES[arch])
    w.add_block_count(layers)
    w.add_context_length(c.get("max_position_embeddings") or c.get("model_max_length") or 2**20)
    w.add_embedding_length(c["hidden_size"])
    w.add_layer_norm_rms_eps(next(c[k] for k in ("rms_norm_eps", "layer_norm_epsilon", "norm_eps") if k in c))
    w.add_vocab_size(c["vocab_size"])
    keys(w, c)
    for tensor, x in converted.items():
        add(w, tensor, x)
    for tensor, rows in raw.items():
        w.add_tensor(tensor, rows, raw_dtype=gguf.GGMLQuantizationType.MXFP4)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


os.makedirs(OUT, exist_ok=True)
for case in sys.argv[1:] or CASES:
    write(case)
