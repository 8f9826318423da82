"""Fields of config.json files as models are published, what is read of them, and some not accepted."""

SLIDING, FULL = "sliding_attention", "full_attention"
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "rope_scaling": None,
    "torch_dtype": "bfloat16",
}
GEMMA3 = {"model_type": "gemma3_text", "head_dim": 128, "num_hidden_layers": 62, "sliding_window": 1024}
QWEN2 = {**LLAMA, "model_type": "qwen2", "sliding_window": 4096, "max_window_layers": 28}
FALCON = {"num_attention_heads": 71, "num_hidden_layers": 32, "hidden_size": 4544, "multi_query": True}
NAMED = {
    "gpt2": (12, 12, 64, "float16", {"full": 12}, None),
    "llama3_8b": (32, 8, 128, "bfloat16", {"full": 32}, None),
    "llama3_70b": (64, 8, 128, "bfloat16", {"full": 80}, None),
    "mistral_7b": (32, 8, 128, "bfloat16", {"window": 32}, 4096),
    "qwen3_8b": (32, 8, 128, "bfloat16", {"full": 36}, None),
    "gemma2_9b": (16, 8, 256, "float16", {"full": 21, "window": 21}, 4096),
    "gemma3_27b": (32, 16, 128, "bfloat16", {"full": 10, "window": 52}, 1024),
    "gpt_oss_20b": (64, 8, 64, "float16", {"full": 12, "window": 12}, 128),
    "phi4": (40, 10, 128, "bfloat16", {"full": 40}, None),
}
"""Of each model here: (query heads, key heads, head_dim, dtype, layers of each kind, window)."""
OTHERS = {
    "no window": ({**LLAMA, "sliding_window": None}, NAMED["llama3_8b"]),
    "a window that is off": ({**QWEN2, "use_sliding_window": False}, NAMED["llama3_8b"]),
    "a window in the last layers": (
        {**QWEN2, "use_sliding_window": True},
        (32, 8, 128, "bfloat16", {"full": 28, "window": 4}, 4096),
    ),
    "text and pictures": (
        {**LLAMA, "num_key_value_heads": 16, "text_config": GEMMA3, "vision_config": {"head_dim": 72}},
        NAMED["gemma3_27b"],
    ),
    "one key head": (FALCON, (71, 1, 64, "float16", {"full": 32}, None)),
}
"""By name: another config, and the same of it."""

BAD = {
    "no heads": ({**LLAMA, "num_attention_heads": None}, "num_attention_heads=None .* missing.*n_head"),
    "no layers": ({"n_head": 12, "n_embd": 768}, "num_hidden_layers=None .* missing"),
    "no width": ({"n_head": 12, "n_layer": 12}, "hidden_size=None .* missing"),
    "text": (
        {**LLAMA, "num_attention_heads": "32"},
        "num_attention_heads='32' .* from 1 to 1024",
    ),
    "true": ({**LLAMA, "num_key_value_heads": True}, "num_key_value_heads=True"),
    "groups": ({**LLAMA, "num_key_value_heads": 5}, "num_key_value_heads=5 .* divide the 32 query heads"),
    "uneven": ({**LLAMA, "hidden_size": 4100}, "hidden_size=4100 .* Add head_dim"),
    "wide": ({**LLAMA, "head_dim": 512}, "head_dim=512 .* from 16 to 256"),
    "gemma3 12b": (
        {**LLAMA, "model_type": "gemma3_text", "hidden_size": 3840, "num_attention_heads": 16},
        "head_dim=None .* missing",
    ),
    "fp8": ({**LLAMA, "torch_dtype": "float8_e4m3fn"}, "dtype='float8_e4m3fn' .* float16, bfloat16, float32"),
    "two names": ({**LLAMA, "n_head": 16}, "num_attention_heads=32 and n_head=16 disagree"),
    "MLA": ({**LLAMA, "kv_lora_rank": 512}, "kv_lora_rank=512 .* compressed keys"),
    "chunks": ({"text_config": {**LLAMA, "attention_chunk_size": 8192}}, "attention_chunk_size=8192"),
    "T5": ({**LLAMA, "is_encoder_decoder": True}, "is_encoder_decoder=True"),
    "BERT": ({**LLAMA, "model_type": "modernbert"}, "model_type='modernbert' .* expected a decoder"),
    "a list too short": ({**LLAMA, "layer_types": [FULL] * 31}, "layer_types='31 entries' .* list of 32"),
    "linear layers": ({**LLAMA, "layer_types": ["linear_attention"] * 32}, "layer_types='linear_attention'"),
    "no window": ({**LLAMA, "layer_types": [SLIDING] * 32}, "sliding_window=None .* number of keys"),
    "window": ({**LLAMA, "sliding_window": -1}, "sliding_window=-1"),
    "softcap": ({**LLAMA, "attn_logit_softcapping": "50"}, "attn_logit_softcapping='50' .* above 0, or null"),
    "nothing": ({}, "num_attention_heads=None"),
}
"""By name: a config that is not accepted, and what the error says."""
