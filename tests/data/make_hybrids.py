#!/usr/bin/env python3
"""Makes tiny random models of hybrid families with stored logits: OUT [--small] [NAME ...]  (needs torch and transformers)

OUT/NAME: config.json, model.safetensors (bfloat16), golden.safetensors, golden.json. Weights, biases and norms are random and not zero; logits
are those of Transformers in double precision, also where its code asks for float32.
"""
import json, math, os, sys
import torch, transformers
from safetensors.torch import load_file, save_file

SMALL = "--small" in sys.argv
if SMALL: sys.argv.remove("--small")
H, VOCAB = (32, 61) if SMALL else (64, 131)
COMMON = dict(vocab_size=VOCAB, hidden_size=H, num_hidden_layers=3, bos_token_id=None, eos_token_id=None, pad_token_id=None)
ATTN = dict(num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256, intermediate_size=3 * H // 2)
MAMBA = dict(mamba_n_heads=8, mamba_d_head=H // 4, mamba_n_groups=2, mamba_d_state=24, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=32)
ROPE = dict(rope_parameters={"rope_type": "default", "rope_theta": 1000.0})
LINEAR = dict(linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_value_head_dim=24, linear_num_key_heads=2, linear_num_value_heads=4)
MOE = dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=32)
DTYPES = {}
MODELS = {
    "mamba": ("Mamba", dict(state_size=12, expand=2, time_step_rank=6, use_bias=True, tie_word_embeddings=False)),
    "mamba_tied": ("Mamba", dict(state_size=20, expand=2, conv_kernel=3, use_conv_bias=False)),
    "mamba2_bias": ("Mamba2", dict(num_heads=6, head_dim=H // 2, state_size=16, n_groups=1, expand=3, use_bias=True, conv_kernel=3, use_conv_bias=False, time_step_limit=(0.05, 0.6), chunk_size=32, tie_word_embeddings=True)),
    "lfm2": ("Lfm2", dict(**ATTN, layer_types=["conv", "full_attention", "conv"], block_multiple_of=16, norm_eps=1e-3, **ROPE)),
    "lfm2_bias": ("Lfm2", dict(**ATTN, full_attn_idxs=[2], conv_bias=True, conv_L_cache=4, block_auto_adjust_ff_dim=False, tie_word_embeddings=False, **ROPE)),
    "falcon_h1": ("FalconH1", dict(**ATTN, head_dim=H // 4, **MAMBA, mamba_d_ssm=2 * H, rms_norm_eps=1e-3, embedding_multiplier=2.5, lm_head_multiplier=0.7, mlp_multipliers=[0.8, 1.3], key_multiplier=0.6, attention_in_multiplier=1.2, attention_out_multiplier=0.9, ssm_multipliers=[0.7, 1.4, 0.8, 1.2, 0.9], ssm_in_multiplier=1.1, ssm_out_multiplier=0.75, **ROPE)),
    "falcon_h1_norm": ("FalconH1", dict(**ATTN, **MAMBA, mamba_d_ssm=2 * H, mamba_rms_norm=True, mamba_norm_before_gate=False, mamba_proj_bias=True, attention_bias=True, mlp_bias=True, projectors_bias=True, attention_in_multiplier=1.2, ssm_in_multiplier=1.1, tie_word_embeddings=True, **ROPE)),
    "falcon_h1_before": ("FalconH1", dict(**ATTN, **MAMBA, mamba_d_ssm=2 * H, mamba_rms_norm=True, mamba_norm_before_gate=True, **ROPE)),
    "bamba": ("Bamba", dict(**ATTN, **MAMBA, attn_layer_indices=[1], rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.5}, rms_norm_eps=1e-3)),
    "bamba_whole": ("Bamba", dict(**ATTN, **MAMBA, attn_layer_indices=[0, 2], rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 1.0})),
    "granitemoehybrid": ("GraniteMoeHybrid", dict(**ATTN, **MAMBA, layer_types=["mamba", "attention", "mamba"], num_local_experts=6, num_experts_per_tok=2, shared_intermediate_size=40, embedding_multiplier=3.0, logits_scaling=0.5, residual_multiplier=0.6, attention_multiplier=0.2, rms_norm_eps=1e-3)),
    "granitemoehybrid_dense": ("GraniteMoeHybrid", dict(**ATTN, **MAMBA, layer_types=["mamba", "attention", "mamba"], num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=96, position_embedding_type="rope", tie_word_embeddings=True, mamba_proj_bias=True, attention_bias=True, **ROPE)),
    "nemotron_h": ("NemotronH", dict(ATTN, head_dim=24, layers_block_type=["mamba", "mlp", "attention", "mamba"], num_hidden_layers=None, mamba_num_heads=8, mamba_head_dim=H // 4, n_groups=2, ssm_state_size=24, chunk_size=32, layer_norm_epsilon=1e-3, time_step_min=0.02)),
    "nemotron_h_step": ("NemotronH", dict(ATTN, head_dim=24, layers_block_type=["attention", "mamba", "mlp"], num_hidden_layers=None, mamba_num_heads=8, mamba_head_dim=H // 4, n_groups=4, ssm_state_size=24, chunk_size=32)),
    "nemotron_h_moe": ("NemotronH", dict(ATTN, head_dim=24, layers_block_type=["mamba", "moe", "attention", "moe"], num_hidden_layers=None, mamba_num_heads=8, mamba_head_dim=H // 4, n_groups=2, ssm_state_size=24, chunk_size=32, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=32, moe_shared_expert_intermediate_size=40, routed_scaling_factor=2.5, n_group=4, topk_group=2)),
    "nemotron_h_latent": ("NemotronH", dict(ATTN, head_dim=24, layers_block_type=["mamba", "moe", "attention", "moe"], num_hidden_layers=None, mamba_num_heads=8, mamba_head_dim=H // 4, n_groups=2, ssm_state_size=24, chunk_size=32, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=32, moe_shared_expert_intermediate_size=40, moe_latent_size=48, routed_scaling_factor=1.5)),
    "qwen3_next": ("Qwen3Next", dict(ATTN, **LINEAR, **MOE, head_dim=32, num_hidden_layers=4, shared_expert_intermediate_size=40, rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.25}, rms_norm_eps=1e-3)),
    "qwen3_5": ("Qwen3_5", dict(ATTN, **LINEAR, head_dim=32, num_hidden_layers=4, layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"], rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.25, "mrope_section": [2, 1, 1], "mrope_interleaved": True}, rms_norm_eps=1e-3), "Qwen3_5TextConfig"),
    "qwen3_5_moe": ("Qwen3_5Moe", dict({k: v for k, v in ATTN.items() if k != "intermediate_size"}, **LINEAR, **MOE, head_dim=32, num_hidden_layers=4, shared_expert_intermediate_size=40, rope_parameters={"rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.25, "mrope_section": [2, 1, 1], "mrope_interleaved": True}), "Qwen3_5MoeTextConfig"),
    "kimi_linear": ("KimiLinear", dict(num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=256, intermediate_size=96, moe_intermediate_size=32, kv_lora_rank=40, qk_rope_head_dim=16, qk_nope_head_dim=24, v_head_dim=20, num_local_experts=8, num_experts_per_tok=3, n_group=1, topk_group=1, layer_types=["linear_attention", "full_attention", "linear_attention"], mlp_layer_types=["dense", "sparse", "sparse"], linear_head_dim=16, linear_num_heads=4, linear_conv_kernel_dim=4, rms_norm_eps=1e-3)),
    "minimax": ("MiniMax", dict(ATTN, head_dim=16, num_local_experts=6, num_experts_per_tok=2, layer_types=["linear_attention", "full_attention", "linear_attention"], block_size=16, full_attn_alpha_factor=1.3, full_attn_beta_factor=0.8, linear_attn_alpha_factor=1.2, linear_attn_beta_factor=0.7, mlp_alpha_factor=1.1, mlp_beta_factor=0.9, rms_norm_eps=1e-3, **ROPE)),
    "olmo_hybrid": ("OlmoHybrid", dict(ATTN, layer_types=["linear_attention", "full_attention", "linear_attention"], **{**LINEAR, "linear_num_key_heads": 4}, rms_norm_eps=1e-3, **ROPE)),
    "olmo_hybrid_nope": ("OlmoHybrid", dict(ATTN, layer_types=["linear_attention", "full_attention", "linear_attention"], **{**LINEAR, "linear_num_key_heads": 4}, linear_allow_neg_eigval=False, attention_bias=True, rope_parameters={"rope_type": "default", "rope_theta": None})),
    "bailing_hybrid": ("BailingHybrid", dict(num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=256, intermediate_size=96, moe_intermediate_size=32, kv_lora_rank=40, q_lora_rank=24, qk_rope_head_dim=16, qk_nope_head_dim=24, v_head_dim=20, head_dim=16, num_local_experts=8, num_experts_per_tok=3, n_group=4, topk_group=2, first_k_dense_replace=1, layer_group_size=2, num_hidden_layers=4, rms_norm_eps=1e-3, **ROPE)),
    "rwkv": ("Rwkv", dict(context_length=256, attention_hidden_size=H, intermediate_size=96, rescale_every=6)),
    "rwkv_wide": ("Rwkv", dict(context_length=256, attention_hidden_size=80, intermediate_size=96, num_hidden_layers=2, rescale_every=0, tie_word_embeddings=True)),
}
CENTRED = ("qwen3_next", "qwen3_5")


def fill(name, p, model_name, g):
    n = lambda scale=1.0: torch.randn(p.shape, generator=g) * scale
    u = lambda a, b: torch.rand(p.shape, generator=g) * (b - a) + a
    last = name.split(".")[-1]
    if last == "A_log": return u(math.log(0.4), math.log(6))
    if last in ("dt_bias",) or name.endswith("dt_proj.bias"): return u(-4, 0)
    if last == "D": return 1 + n(0.3)
    if last == "time_decay": return u(-3, 1)
    if last == "time_first": return n(0.5)
    if last.startswith("time_mix"): return u(0, 1)
    if "norm" in name and p.dim() == 1 or (p.dim() == 1 and ".ln" in name):
        if last == "bias": return n(0.2)
        centred = model_name.startswith(CENTRED) and "linear_attn" not in name
        return n(0.3) if centred else 1 + n(0.3)
    if "conv1d" in name or name.endswith("conv.weight"): return n(0.5) if p.dim() > 1 else n(0.2)
    if p.dim() == 1: return n(0.2)
    if "embed" in name: return n(1.0)
    return n(1.0 / math.sqrt(p.shape[-1]))


def build(model_name, out):
    spec = MODELS[model_name]
    prefix, settings = spec[0], {**COMMON, **spec[1]}
    settings = {k: v for k, v in settings.items() if not (k == "num_hidden_layers" and v is None)}
    if prefix in ("NemotronH",): settings.pop("num_hidden_layers", None)
    config = getattr(transformers, spec[2] if len(spec) > 2 else prefix + "Config")(**settings)
    config._attn_implementation = config._experts_implementation = "eager"
    torch.manual_seed(7)
    model = getattr(transformers, prefix + "ForCausalLM")(config).eval()
    g = torch.Generator().manual_seed(sum(map(ord, model_name)) + 1000)
    with torch.no_grad():
        for name, p in model.named_parameters(): p.copy_(fill(name, p, model_name, g))
        for name, b in model.named_buffers():
            if "correction_bias" in name or name.endswith("expert_bias"): b.copy_(torch.randn(b.shape, generator=g) * 0.1)
        probe = torch.randint(0, config.vocab_size, (1, 64), generator=g)
        scale = 2.0 / model(probe, use_cache=False).logits.std()
        head = model.get_output_embeddings().weight
        head.mul_(scale)
    model = model.to(torch.bfloat16)
    model.save_pretrained(out)
    prompts = [torch.randint(0, config.vocab_size, (1, n), generator=g) for n in (47, 1, 200)]
    positions = [list(range(47)), [0], [0, 63, 64, 127, 128, 199]]
    half = []
    with torch.no_grad():
        for ids in prompts: half.append(model(ids, use_cache=False).logits.double())
    del model
    single, default = torch.float32, torch.get_default_dtype()
    to, as_float = torch.Tensor.to, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = lambda self, *a, **k: self.double()
    torch.set_default_dtype(torch.float64)
    model = getattr(transformers, prefix + "ForCausalLM").from_pretrained(out, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager").eval()
    with torch.no_grad():
        for module in model.modules():
            if hasattr(module, "get_slope_rate"):
                module.slope_rate.copy_(module.get_slope_rate())
                for buffer, value in zip((module.query_decay, module.key_decay, module.diagonal_decay), module.decay_factors(module.slope_rate)): buffer.copy_(value)
    tensors, fair, stds = {}, [], []
    with torch.no_grad():
        for i, ids in enumerate(prompts):
            logits = model(ids, use_cache=False).logits
            assert logits.dtype == torch.float64
            tensors[f"prompt{i}.ids"] = ids[0].to(torch.int64)
            tensors[f"prompt{i}.positions"] = torch.tensor(positions[i])
            tensors[f"prompt{i}.logits"] = to(logits[0][positions[i]], single)
            error = ((half[i] - logits)[0][positions[i]].pow(2).mean() / logits[0][positions[i]].pow(2).mean()).sqrt().item()
            fair.append(max(2e-2, 1.5 * error)); stds.append(logits.std().item())
        ids, greedy, gaps = prompts[0], [], []
        for _ in range(16):
            top = model(ids, use_cache=False).logits[0, -1].topk(2)
            greedy.append(top.indices[0].item()); gaps.append((top.values[0] - top.values[1]).item())
            ids = torch.cat([ids, top.indices[:1][None]], 1)
        tensors["prompt0.greedy"] = torch.tensor(greedy)
    torch.float32 = torch.float = single
    torch.Tensor.float = as_float
    torch.set_default_dtype(default)
    save_file(tensors, out + "/golden.safetensors")
    json.dump({"name": model_name, "fair_bf16_tol": fair}, open(out + "/golden.json", "w"))
    print(model_name, "std", [round(s, 2) for s in stds], "fair", [round(f, 3) for f in fair], "gap", round(min(gaps), 4), os.path.getsize(out + "/model.safetensors") // 1024, "KiB", flush=True)


for name in sys.argv[2:] or MODELS:
    try: build(name, os.path.join(sys.argv[1], name))
    except Exception as e:
        import traceback; print(name, "FAILED", type(e).__name__, str(e)[:300], flush=True)
        if len(sys.argv) > 2: traceback.print_exc()
