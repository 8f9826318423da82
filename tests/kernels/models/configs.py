"""Fields of real config.json files, as their models are published, and what is read of them."""

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
    "vocab_size": 128256,
}
GOOD = {
    "llama": (LLAMA, (32, 8, 128, "bfloat16", {"full": 32}, None)),
    "gpt2": (
        {
            "model_type": "gpt2",
            "n_head": 12,
            "n_layer": 12,
            "n_embd": 768,
            "n_positions": 1024,
            "n_ctx": 1024,
        },
        (12, 12, 64, "float16", {"full": 12}, None),
    ),
    "mistral": (
        {**LLAMA, "model_type": "mistral", "sliding_window": 4096},
        (32, 8, 128, "bfloat16", {"window": 32}, 4096),
    ),
    "mistral v0.2": ({**LLAMA, "sliding_window": None}, (32, 8, 128, "bfloat16", {"full": 32}, None)),
    "qwen2.5": (
        {
            **LLAMA,
            "model_type": "qwen2",
            "hidden_size": 3584,
            "num_attention_heads": 28,
            "num_key_value_heads": 4,
            "sliding_window": 131072,
            "use_sliding_window": False,
            "max_window_layers": 28,
        },
        (28, 4, 128, "bfloat16", {"full": 32}, None),
    ),
    "qwen2 with its window": (
        {
            **LLAMA,
            "model_type": "qwen2",
            "sliding_window": 4096,
            "use_sliding_window": True,
            "max_window_layers": 28,
        },
        (32, 8, 128, "bfloat16", {"full": 28, "window": 4}, 4096),
    ),
    "gemma2": (
        {
            **LLAMA,
            "model_type": "gemma2",
            "head_dim": 256,
            "num_hidden_layers": 42,
            "sliding_window": 4096,
            "attn_logit_softcapping": 50.0,
        },
        (32, 8, 256, "bfloat16", {"full": 21, "window": 21}, 4096),
    ),
    "gemma3, text and pictures": (
        {
            "architectures": ["Gemma3ForConditionalGeneration"],
            "model_type": "gemma3",
            "text_config": {
                "model_type": "gemma3_text",
                "head_dim": 128,
                "hidden_size": 5376,
                "num_attention_heads": 32,
                "num_hidden_layers": 62,
                "num_key_value_heads": 16,
                "query_pre_attn_scalar": 168,
                "sliding_window": 1024,
            },
            "torch_dtype": "bfloat16",
            "vision_config": {"hidden_size": 1152, "num_attention_heads": 16, "num_hidden_layers": 27},
        },
        (32, 16, 128, "bfloat16", {"full": 10, "window": 52}, 1024),
    ),
    "gpt-oss": (
        {
            "model_type": "gpt_oss",
            "head_dim": 64,
            "hidden_size": 2880,
            "layer_types": [SLIDING, FULL] * 12,
            "num_attention_heads": 64,
            "num_hidden_layers": 24,
            "num_key_value_heads": 8,
            "sliding_window": 128,
        },
        (64, 8, 64, "float16", {"full": 12, "window": 12}, 128),
    ),
    "falcon": (
        {
            "model_type": "falcon",
            "hidden_size": 4544,
            "num_attention_heads": 71,
            "num_hidden_layers": 32,
            "multi_query": True,
            "torch_dtype": "bfloat16",
        },
        (71, 1, 64, "bfloat16", {"full": 32}, None),
    ),
}
"""By name: the config, and (query heads, key heads, head_dim, dtype, layers of each kind, window)."""

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
