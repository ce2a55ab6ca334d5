"""The largest size of a request. Larger ones are refused early, before they take time or memory from others."""

MAX_BYTES = 16 * 2**20  # of a message, of a decompressed body, and of each tensor
MAX_ROWS = 2**16
MAX_JSON_VALUES = 2**20  # nobody else is served while Python parses JSON: up to half a second
