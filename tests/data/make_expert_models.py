#!/usr/bin/env python3
"""Makes the tiny models with routed experts of tests/data/models/variants; see make_models.py, whose layout they have.

usage: make_expert_models.py OUT        (needs torch, transformers, safetensors, gguf, numpy)
"""
import sys
import torch, transformers as tf
from gguf import GGUFWriter
from make_models import BF16, F16, F32, OUT, SMALL, folder, golden, make, older

MOE = SMALL | dict(experts_implementation="eager", max_position_embeddings=256, num_hidden_layers=2, num_experts_per_tok=3)


def with_biases(model, seed):
    """Selection biases large enough to change choices."""
    torch.manual_seed(seed)
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            buffer.copy_(0.2 * torch.randn(buffer.shape))
    return model


def mxfp4(rows, cols, experts):
    """Random blocks and scales as gpt-oss stores them, and the numbers they stand for [experts, rows, cols]."""
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)
    blocks = torch.randint(0, 256, (experts, rows, cols // 32, 16), dtype=torch.uint8)
    scales = torch.randint(122, 126, (experts, rows, cols // 32), dtype=torch.uint8)
    pairs = torch.stack([values[(blocks & 15).long()], values[(blocks >> 4).long()]], -1).flatten(-2)
    return blocks, scales, (pairs * torch.exp2(scales.double() - 127)[..., None]).reshape(experts, rows, cols)


def gpt_oss_mxfp4():
    c = tf.GptOssConfig(**SMALL | dict(experts_implementation="eager", max_position_embeddings=256, hidden_size=64, intermediate_size=32, num_hidden_layers=2, head_dim=16),
                        num_local_experts=5, num_experts_per_tok=2, sliding_window=9, layer_types=["sliding_attention", "full_attention"],
                        rope_parameters={"rope_type": "default", "rope_theta": 900.0})
    m = make(tf.GptOssForCausalLM, c, BF16, 21)
    extra, replaced = {}, set()
    for i, layer in enumerate(m.model.layers):
        for name, rows, cols in (("gate_up_proj", 64, 64), ("down_proj", 64, 32)):
            blocks, scales, x = mxfp4(rows, cols, 5)
            with torch.no_grad():
                getattr(layer.mlp.experts, name).copy_(x.transpose(1, 2))
            stem = f"model.layers.{i}.mlp.experts.{name}"
            extra |= {stem + "_blocks": blocks, stem + "_scales": scales}
            replaced.add(stem)
    folder("gpt_oss_mxfp4", m, BF16, lambda c: c | {"quantization_config": {"quant_method": "mxfp4"}},
           rename=lambda n: "dropped" if n in replaced else n, extra=extra)
    from safetensors.torch import load_file, save_file
    path = f"{OUT}/gpt_oss_mxfp4/model.safetensors"
    tensors = load_file(path)
    tensors.pop("dropped")
    save_file(tensors, path)


def mixtral_gguf():
    """As converters write mixtral: architecture llama, experts stacked, queries and keys side by side."""
    from make_models import gguf_name, side_by_side
    c = tf.MixtralConfig(**MOE | dict(intermediate_size=40), num_local_experts=5,
                         rope_parameters={"rope_type": "default", "rope_theta": 900.0}, tie_word_embeddings=False)
    m = make(tf.MixtralForCausalLM, c, F32, 22)
    golden("gguf_mixtral", m)
    w = GGUFWriter(f"{OUT}/gguf_mixtral.gguf", "llama")
    for key, value in dict(block_count=2, context_length=256, embedding_length=40, feed_forward_length=40, expert_count=5, expert_used_count=3).items():
        w.add_uint32(f"llama.{key}", value)
    w.add_uint32("llama.attention.head_count", 4)
    w.add_uint32("llama.attention.head_count_kv", 2)
    w.add_float32("llama.attention.layer_norm_rms_epsilon", c.rms_norm_eps)
    w.add_float32("llama.rope.freq_base", 900.0)
    for name, p in m.named_parameters():
        x = p.detach().float().numpy()
        if "mlp.gate" in name or "mlp.experts" in name:
            layer = name.split(".")[2]
            if name.endswith("gate_up_proj"):
                w.add_tensor(f"blk.{layer}.ffn_gate_exps.weight", x[:, :40].copy())
                w.add_tensor(f"blk.{layer}.ffn_up_exps.weight", x[:, 40:].copy())
            else:
                stem = "ffn_down_exps" if name.endswith("down_proj") else "ffn_gate_inp"
                w.add_tensor(f"blk.{layer}.{stem}.weight", x)
            continue
        if "q_proj" in name or "k_proj" in name:
            x = side_by_side(x, 4 if "q_proj" in name else 2).copy()
        w.add_tensor(gguf_name(name, False), x)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    m = make(tf.MixtralForCausalLM, tf.MixtralConfig(**MOE, num_local_experts=4, sliding_window=11, rms_norm_eps=1e-3,
             rope_parameters={"rope_type": "default", "rope_theta": 900.0}), F16, 23)
    folder("mixtral_window", m, F16, older)
    m = make(tf.Qwen2MoeForCausalLM, tf.Qwen2MoeConfig(**MOE | dict(num_hidden_layers=4), num_experts=6, moe_intermediate_size=24,
             shared_expert_intermediate_size=56, norm_topk_prob=False, decoder_sparse_step=2, mlp_only_layers=[3]), F32, 34)
    folder("qwen2_moe", m, F32)
    m = make(tf.Qwen2MoeForCausalLM, tf.Qwen2MoeConfig(**MOE, num_experts=6, moe_intermediate_size=24, qkv_bias=False,
             shared_expert_intermediate_size=40, norm_topk_prob=True), BF16, 25)
    folder("qwen2_moe_norm", m, BF16)
    m = make(tf.Qwen3MoeForCausalLM, tf.Qwen3MoeConfig(**MOE, head_dim=24, num_experts=7, moe_intermediate_size=20,
             norm_topk_prob=False, attention_bias=True), BF16, 26)
    folder("qwen3_moe_plain", m, BF16)
    glm = MOE | dict(num_hidden_layers=3, head_dim=16)
    m = make(tf.Glm4MoeForCausalLM, tf.Glm4MoeConfig(**glm, n_routed_experts=8, n_group=4, topk_group=2, moe_intermediate_size=24,
             n_shared_experts=2, first_k_dense_replace=1, routed_scaling_factor=1.7, attention_bias=True, use_qk_norm=True,
             num_mtp_layers=0, rope_parameters={"rope_type": "default", "rope_theta": 900.0, "partial_rotary_factor": 0.5}), F32, 27)
    folder("glm4_moe_groups", with_biases(m, 28), F32, extra={"model.layers.3.eh_proj.weight": torch.ones(2, 2)})
    m = make(tf.Glm4MoeForCausalLM, tf.Glm4MoeConfig(**glm, n_routed_experts=5, moe_intermediate_size=24, norm_topk_prob=False,
             first_k_dense_replace=0, rope_parameters={"rope_type": "default", "rope_theta": 900.0, "partial_rotary_factor": 0.25}), F32, 29)
    folder("glm4_moe_plain", with_biases(m, 30), F32)
    c = tf.GptOssConfig(**SMALL | dict(experts_implementation="eager", num_hidden_layers=2, head_dim=16, intermediate_size=24), num_local_experts=5, num_experts_per_tok=3,
                        sliding_window=9, rope_parameters={"rope_type": "yarn", "factor": 4.0, "beta_fast": 3.0, "beta_slow": 0.5,
                        "truncate": False, "original_max_position_embeddings": 24, "rope_theta": 900.0})
    folder("gpt_oss_yarn", make(tf.GptOssForCausalLM, c, F32, 31), F32)
    gpt_oss_mxfp4()
    mixtral_gguf()


if __name__ == "__main__":
    main()
