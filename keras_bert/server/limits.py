"""How much a request may hold. More is refused early, before it costs time or memory that other clients need."""

MAX_BYTES = 16 * 2**20  # of a message or a body, also once it is decompressed, and of each tensor in memory
MAX_ROWS = 2**16
MAX_JSON_VALUES = 2**20  # Python parses JSON in one go, during which nobody else is served: up to half a second
