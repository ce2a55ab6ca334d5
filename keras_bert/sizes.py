"""The table of the published sizes of models, as fields of `BertConfig`."""

from typing import Any

from keras_bert.formats.families import FAMILIES

_BERT = "bert-"
# Name -> the fields that differ from the defaults of BertConfig.
SIZES: dict[str, dict[str, Any]] = {
    size: {"family": name, **family.size, **fields}
    for name, family in FAMILIES.items()
    for size, fields in family.sizes.items()
}


def published_size(size: str) -> str | None:
    """Finds the key of `SIZES` that a name such as "tiny" means. None: it is the path of a JSON file."""
    name = next((each for each in (size, f"{_BERT}{size}") if each in SIZES), None)
    if name is None and not size.endswith(".json"):
        names = ", ".join(each.removeprefix(_BERT) for each in SIZES)
        raise ValueError(f"there is no size {size!r}; the sizes are {names}; or give a config.json")
    return name
