"""Keys of Hugging Face's `config.json` that do not change what this package computes.

A key that is neither here nor in a family's table gets a warning, because it might change the model's outputs.
"""

# In every model: the origin of the file, the form of a call's result, and the generation of text.
_FILE = """
    _attn_implementation_autoset _commit_hash _name_or_path auto_map dtype export_model_type finetuning_task kwargs
    language name name_or_path pretrained_model_name_or_path task_specific_params tokenizer_class torch_dtype
    transformers.js_config transformers_version trust_remote_code
"""
_CALLS = """
    _attn_implementation attn_implementation chunk_size_feed_forward gradient_checkpointing output_attentions
    output_hidden_states output_past return_dict tf_legacy_loss torchscript use_bfloat16 use_cache
"""
_GENERATION = """
    bad_words_ids begin_suppress_tokens cross_attention_hidden_size decoder_start_token_id diversity_penalty do_sample
    early_stopping encoder_no_repeat_ngram_size eos_token_ids exponential_decay_length_penalty forced_bos_token_id
    forced_eos_token_id length_penalty max_length min_length no_repeat_ngram_size num_beam_groups num_beams
    num_return_sequences output_scores prefix remove_invalid_values repetition_penalty return_dict_in_generate
    suppress_tokens temperature tie_encoder_decoder top_k top_p typical_p
"""
# Special tokens come from the tokenizer's files. Whether a decoder is tied to the embeddings, the weights show.
_TOKENS = """
    bos_token bos_token_id cls_token cls_token_id eos_token eos_token_id mask_token mask_token_id pad_token sep_token
    sep_token_id tie_weights_ tie_word_embeddings
"""
# The labels and the task's settings, which tasks read; `label2id` and `num_labels` follow from `id2label`.
_TASKS = """
    _num_labels architectures id2label keras_bert label2id matryoshka_dimensions model_type num_labels problem_type
    sbert_ce_default_activation_function sentence_transformers
"""
# Rates of dropout in heads: tasks have an argument `dropout` instead.
_HEADS = """
    classifier_dropout classifier_dropout_prob cls_dropout pooler_dropout qa_dropout seq_classif_dropout
    summary_first_dropout summary_last_dropout
"""
# Of heads for multiple choice that only ELECTRA has, whose table checks them.
_SUMMARIES = "summary_activation summary_proj_to_labels summary_type summary_use_proj"
EVERYWHERE = frozenset(" ".join([_FILE, _CALLS, _GENERATION, _TOKENS, _TASKS, _HEADS, _SUMMARIES]).split())

# Google's multilingual and Chinese models have sizes of poolers that Google's code does not build.
BERT = EVERYWHERE | {
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "task_type_vocab_size",  # needs use_task_id, which is not supported
}
DISTILBERT = EVERYWHERE | {"sinusoidal_pos_embds"}  # initial values of weights
DEBERTA = BERT | {"conv_act", "conv_groups"}  # need conv_kernel_size, which is not supported
# Some keys are left over from BERT; ModernBERT reads norm_eps, hidden_activation and so on in their place.
MODERNBERT = EVERYWHERE | {
    "attention_probs_dropout_prob",
    "deterministic_flash_attn",
    "hidden_act",
    "hidden_dropout_prob",
    "initializer_cutoff_factor",
    "layer_norm_eps",
    "position_embedding_type",
    "reference_compile",
    "repad_logits_with_grad",
    "sparse_pred_ignore_index",
    "sparse_prediction",  # computes the logits of masked tokens only
    "type_vocab_size",
}
NOMIC_BERT = EVERYWHERE | {
    "dense_seq_output",  # computes the logits of masked tokens only
    "embd_pdrop",  # dropout
    "fused_bias_fc",
    "fused_dropout_add_ln",
    "max_trained_positions",  # needs rotary_scaling_factor, which is not supported
    "pad_vocab_size_multiple",  # vocab_size is rounded up already
    "parallel_block_tied_norm",  # needs parallel_block, which is not supported
    "reorder_and_upcast_attn",
    "use_flash_attn",
    "use_xentropy",
}
NEW = EVERYWHERE | {"logn_attention_clip1", "unpad_inputs", "use_memory_efficient_attention"}
EUROBERT = EVERYWHERE | {"pretraining_tp"}
NEOBERT = EVERYWHERE - {"max_length"} | {
    "base_scale",  # needs ngpt, which is not supported
    "classifier_init_range",
    "decoder_init_range",
    "dropout",
    "flash_attention",
}
# Keys of the Keras object that a KerasHub preset describes.
KERAS_HUB = frozenset({"dtype", "name", "trainable"})
