"""Windows over long contexts, and which of them speaks for a token, as run_squad.py of google-research/bert has it."""


def is_max_context(spans, current, position):
    """`_check_is_max_context`; spans are (start, length)."""
    best_score, best = None, None
    for index, (start, length) in enumerate(spans):
        end = start + length - 1
        if position < start or position > end:
            continue
        score = min(position - start, end - position) + 0.01 * length
        if best_score is None or score > best_score:
            best_score, best = score, index
    return current == best


def windows(preprocessor, question, context):
    """(begin, tokens) of each window, the tokens of its row before it, and the bytes of all tokens of the context."""
    tokenizer, longest = preprocessor.tokenizer, preprocessor.max_sequence_length
    tokens, starts, ends = (each.numpy().tolist() for each in tokenizer.tokenize_with_offsets(context))
    separators = [tokenizer.sep_token_id] * tokenizer.pair_format.separators
    room = longest - 2 - len(separators)
    asked = tokenizer.tokenize(question).numpy().tolist()[: room // 2]
    room -= len(asked)
    cut, begin = [], 0
    while True:
        cut.append((begin, tokens[begin : begin + room]))
        if begin + room >= len(tokens):
            return cut, [tokenizer.cls_token_id, *asked, *separators], starts, ends
        begin += min(room, preprocessor.stride)
