"""BertPreprocessor -> a SavedModel with TF Hub's API for text preprocessing."""

import tempfile
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_bert import files
from keras_bert.formats.hugging_face_tokenizers import VOCABULARY
from keras_bert.saved_model.saving import callable_object, new_directory
from keras_bert.text import BertPreprocessor, WordPieceTokenizer
from keras_bert.text.packing import pack, truncate
from keras_bert.text.strings import require

DEFAULT_LENGTH = 128
_SENTENCES = tf.TensorSpec([None], tf.string, "sentences")
_TOKENS = tf.RaggedTensorSpec([None, None], tf.int32, ragged_rank=1)  # [batch, (tokens)]
_TOKENS_OF_WORDS = tf.RaggedTensorSpec([None, None, None], tf.int32, ragged_rank=2)  # [batch, (words), (tokens)]


def export_preprocessor(preprocessor: BertPreprocessor, directory: str | Path, overwrite: bool = False) -> None:
    """Writes a SavedModel that turns strings into an encoder's inputs, for `hub.KerasLayer` and `tf.saved_model.load`.

    It follows TF Hub's common API for text (common_saved_model_apis/text). The loaded `model` has:
        `model(sentences)`: string `[batch]` -> the output of `preprocessor`, a dict of int32 `[batch, seq_length]`;
        `model.tokenize(sentences)`: ragged int32 `[batch, (words), (tokens)]`;
        `model.tokenize_with_offsets(sentences)`: the same, and int64 starts and ends of the tokens, in bytes;
        `model.tokenize.get_special_tokens_dict()`: int32 scalars `vocab_size`, `padding_id`, `start_of_sequence_id`,
            `end_of_segment_id`, `mask_id`;
        `model.bert_pack_inputs([segments], seq_length=128)`: one or two ragged tensors of ids, with or without the
        dimension of words -> a dict of int32 `[batch, seq_length]`, truncated in the preprocessor's way;
        `model.vocab_file`: the vocabulary, one token per line.
    A process that loads it must `import tensorflow_text`, for its operations, and needs nothing else.

    Args:
        preprocessor: the preprocessor.
        directory: a new directory.
        overwrite: whether to replace an existing SavedModel.

    Raises:
        FileExistsError: `directory` exists, and `overwrite` is False or it is not a SavedModel.
        ValueError: the preprocessor makes windows, which TF Hub's interface does not support.

    Example:
        >>> import tempfile
        >>> from keras_bert import BertPreprocessor
        >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=6)
        >>> directory = tempfile.mkdtemp()
        >>> export_preprocessor(preprocessor, directory)
        >>> tf.saved_model.load(directory)(tf.constant(["hello world"]))["input_word_ids"].numpy()
        array([[ 101, 7592, 2088,  102,    0,    0]], dtype=int32)
    """
    if preprocessor.stride is not None:
        raise ValueError("TF Hub's preprocessors make one row per text, but this one makes windows; leave stride out")
    with new_directory(directory, overwrite) as unfinished, tempfile.TemporaryDirectory(dir=unfinished) as temporary:
        tokenizer = preprocessor.tokenizer
        files.write_texts(temporary, {VOCABULARY: "".join(token + "\n" for token in tokenizer.vocabulary)})
        call = tf.function(lambda sentences: preprocessor(sentences), autograph=False)
        call.get_concrete_function(_SENTENCES)
        root = callable_object(
            call,
            tokenize=_tokenize(tokenizer),
            tokenize_with_offsets=_tokenize_with_offsets(tokenizer),
            bert_pack_inputs=_bert_pack_inputs(preprocessor),
            vocab_file=tf.saved_model.Asset(str(Path(temporary) / VOCABULARY)),
        )
        tf.saved_model.save(root, str(unfinished), signatures=call.get_concrete_function(_SENTENCES))


def _tokenize(tokenizer: WordPieceTokenizer) -> tf.train.Checkpoint:
    @tf.function(input_signature=[_SENTENCES], autograph=False)
    def tokenize(sentences: tf.Tensor) -> tf.RaggedTensor:
        return tokenizer.group_by_word(tokenizer.tokenize(sentences))[0]

    @tf.function(input_signature=[], autograph=False)
    def get_special_tokens_dict() -> dict[str, tf.Tensor]:
        return {
            "vocab_size": tf.constant(tokenizer.vocabulary_size),
            "padding_id": tf.constant(tokenizer.pad_token_id),
            "start_of_sequence_id": tf.constant(tokenizer.cls_token_id),
            "end_of_segment_id": tf.constant(tokenizer.sep_token_id),
            "mask_id": tf.constant(tokenizer.mask_token_id),
        }

    return callable_object(tokenize, get_special_tokens_dict=get_special_tokens_dict)


def _tokenize_with_offsets(tokenizer: WordPieceTokenizer) -> tf.train.Checkpoint:
    @tf.function(input_signature=[_SENTENCES], autograph=False)
    def tokenize_with_offsets(sentences: tf.Tensor) -> tuple[tf.RaggedTensor, ...]:
        return tokenizer.group_by_word(*tokenizer.tokenize_with_offsets(sentences))

    return callable_object(tokenize_with_offsets)


def _bert_pack_inputs(preprocessor: BertPreprocessor) -> tf.train.Checkpoint:
    tokenizer, truncation = preprocessor.tokenizer, preprocessor.truncation

    @tf.function(autograph=False)
    def bert_pack_inputs(inputs: list[tf.RaggedTensor], seq_length: Any = DEFAULT_LENGTH) -> dict[str, tf.Tensor]:
        if inputs[0].shape.rank == 3:  # with the dimension of words: calls the other trace
            return bert_pack_inputs([each.merge_dims(1, -1) for each in inputs], seq_length)
        room = seq_length - tokenizer.pair_format.special_tokens(len(inputs))
        require(
            room >= 0, "seq_length must leave room for [CLS] and for the [SEP] of each segment, but it is", seq_length
        )
        segments = truncate(inputs, room, truncation)
        special_ids = (tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id)
        return pack(segments, seq_length, *special_ids, tokenizer.pair_format)

    for segment in (_TOKENS, _TOKENS_OF_WORDS):
        for count in (1, 2):
            bert_pack_inputs.get_concrete_function([segment] * count, tf.TensorSpec([], tf.int32, "seq_length"))
    return callable_object(bert_pack_inputs)
