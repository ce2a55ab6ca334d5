"""A wrong path, column, option or preset is an error before TensorFlow, which takes seconds, is imported."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ..support import wrong_calls

FILES = {
    "texts.txt": "a cat\na kitten\n",
    "table.csv": "review,label\na cat,good\na dog,bad\n",
    "pairs.csv": "query,positive\na cat,a kitten\na dog,a puppy\n",
    "rows.jsonl": '{"review": "a cat", "label": "good"}\n{"review": "a dog", "label": "bad"}\n',
    "words.conll": "cats O\nsleep O\n",
    "squad.json": '{"data": []}',
    "data.json": '[\n{"review": "a cat"},\n{"review": "a dog"}\n]\n',
    "paper.pdf": "%PDF-1.7\n",
    "vocab.txt": "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n",
    "blank.txt": "\n\n",
    "exists.jsonl": "{}\n",
    "exists.html": "mine\n",
    "empty/notes.txt": "mine\n",
    "damaged/config.json": '{"model_type": "bert", ',
    "strange/config.json": '{"model_type": "mamba"}',
    "damaged-index/index.db": "{",
    "interrupted/training/state.safetensors": "",
}
PRESETS = {  # a handle that is no preset -> what the message names
    "nowhere": "'nowhere' is neither a directory nor a known preset",
    "empty": "empty has no config.json",
    "damaged": "damaged/config.json",
    "strange": "mamba",
    "interrupted": "it is unfinished; resume it with the command that began it",
    "bert-boks": "did you mean 'bert-books'?",
    "./strnge": "did you mean 'strange'?",
    "table.csv": "'table.csv' is a file",
    "hf://one": "hf://one",
}
TAKES_PRESET = """
encode --preset {} --file texts.txt
embed table.csv --text-column review --output new --preset {}
project --file texts.txt --output new --preset {}
similarity a b --preset {}
senses cat --file texts.txt --preset {}
attention a b --output a.html --preset {}
index texts.txt --output new --preset {}
duplicates texts.txt --preset {}
mine pairs.csv --preset {} --output new.jsonl
mine pairs.csv --rerank {} --output new.jsonl
finetune classify --train table.csv --text-column review --output new --preset {}
finetune tag --train words.conll --output new --preset {}
evaluate {} table.csv
predict {} text
fill {} text
summary {}
convert {} new
distill classify --teacher {} --num-layers 1 --train table.csv --text-column review --output new
pretrain texts.txt --preset {} --steps 1 --output new
distill pretrain texts.txt --teacher {} --num-layers 1 --steps 1 --output new
export encoder --output new --preset {}
export serving --output new --preset {}
export onnx --output new --preset {}
""".strip().splitlines()
TAKES_TOKENIZER = (
    "tokenize a --preset {}",
    "detokenize 1 2 --preset {}",
    "export preprocessor --output new --preset {}",
)
_MODEL = "all-MiniLM-L6-v2"
WRITES_LINES = [
    "encode text", "tokenize text", "detokenize 1", "similarity a b", "senses cat --file texts.txt",
    f"fill {_MODEL} text", "duplicates texts.txt", "mine pairs.csv", f"predict {_MODEL} text",
]  # fmt: skip
_PRETRAIN = "pretrain texts.txt --vocab vocab.txt --size tiny --steps 1 --output new"
_CLASSIFY = "finetune classify --train table.csv --text-column review"
_RANK = "finetune rank --train pairs.csv --query-column query --passage-column positive --output new"
_NAMES_FORMATS = (f"predict {_MODEL} text --output", "mine pairs.csv --output", "similarity a b --output")
READS_LINES = [
    "encode", "project --output new", "tokenize", "detokenize", "similarity", "senses cat", "search empty",
    f"fill {_MODEL}", f"predict {_MODEL}",
]  # fmt: skip
TAKES_PRECISION = [
    "encode text", f"evaluate {_MODEL} table.csv", f"predict {_MODEL} text", f"summary {_MODEL}",
    "export encoder --output new", "export serving --output new",
]  # fmt: skip
WRITES_DIRECTORIES = [
    "embed table.csv --text-column review", "index texts.txt", "project --file texts.txt", _CLASSIFY,
    _PRETRAIN.replace("--output new", ""), "export encoder", "export serving", "export preprocessor",
]  # fmt: skip
TASKS = ("classify", "tag", "answer", "rank", "embed")
DIRECTORIES = ("encoder", "preprocessor", "onnx", "openvino", "litert")
# A file that holds something else -> what the message says it is.
IS = {
    "data.json": "data.json is a list in JSON, not JSON lines", "paper.pdf": "paper.pdf is a PDF",
    "squad.json": "squad.json is a JSON object like SQuAD's", "words.conll": "words.conll is a file of CoNLL's columns",
}  # fmt: skip
TABLES = {"table.csv": "table.csv is a table (CSV)", "rows.jsonl": "rows.jsonl is a file of JSON lines"}
READS_TEXT = [  # FILE, which is no table
    *(f"{command} --file FILE" for command in READS_LINES if not command.startswith("predict")),
    "vocab FILE --size 9 --output new.txt", _PRETRAIN.replace("texts.txt", "FILE"), f"{_PRETRAIN} --eval FILE",
    "distill pretrain FILE --teacher all-MiniLM-L6-v2 --num-layers 1 --steps 1 --output new",
    f"convert {_MODEL} new --check --texts FILE",
]  # fmt: skip
READS_TABLES = [  # or text
    "embed FILE --output new", "index FILE --output new", "duplicates FILE", "mine FILE --output new.jsonl",
    "mine pairs.csv --corpus FILE --output new.jsonl", f"predict {_MODEL} --file FILE",
    "encode text --precision int8 --calibration FILE", "senses cat --file FILE --text-column review",
    f"evaluate {_MODEL} FILE --query-column a --positive-column b",
    *(f"finetune {task} --train FILE --output new" for task in ("classify", "rank", "embed")),
]  # fmt: skip
WRONG = {  # a command -> what the message names
    **{each.replace("FILE", file): text for each in READS_TEXT for file, text in (IS | TABLES).items()},
    **{each.replace("FILE", file): text for each in READS_TABLES for file, text in IS.items()},
    **{
        f"finetune {task} --train {file} --output new": text
        for task, files in (("tag", ["data.json", "paper.pdf", "table.csv"]), ("answer", ["paper.pdf", "table.csv"]))
        for file, text in (IS | TABLES).items()
        if file in files
    },
    # What comes first is missing.
    "fill 'The capital of France'": "is a text, and MODEL, which comes first, is missing: keras-bert fill",
    "predict 'a text'": "MODEL, which comes first, is missing: keras-bert predict [OPTIONS] MODEL [TEXT]...",
    "evaluate table.csv": "'table.csv' is a file, and MODEL, which comes first, is missing",
    "search 'a text'": "DIR, which comes first, is missing",
    **{f"{each} bert-books text": "--preset bert-books" for each in ("encode", "tokenize", "similarity")},
    "summary bert_base": "did you mean 'bert-base'?",
    "predict bert-books 'the [MASK] rains'": "bert-books 'the [MASK] rains'",
    # Paths.
    **{f"{command} --file nowhere.txt": "cannot read nowhere.txt" for command in READS_LINES},
    **{f"{command} 1 --file -": "not both" for command in ("encode", "tokenize", "detokenize", "similarity")},
    "tokenize --file empty": "cannot read empty: Is a directory",
    "embed nowhere.csv --output new": "nowhere.csv",
    "index nowhere.txt --output new": "nowhere.txt",
    "duplicates nowhere.txt": "nowhere.txt",
    "mine nowhere.csv --output new.jsonl": "nowhere.csv",
    "mine pairs.csv --corpus nowhere.txt --output new.jsonl": "nowhere.txt",
    "search nowhere text": "nowhere",
    "search empty text": "index.db",
    "search damaged-index text": "index.db",
    "index --remove id=1 --output nowhere": "index.db",
    "vocab nowhere.txt --size 9 --output new.txt": "nowhere.txt",
    "vocab empty/none --size 9 --output new.txt": "empty/none",
    "evaluate all-MiniLM-L6-v2 nowhere.csv": "nowhere.csv",
    "evaluate all-MiniLM-L6-v2 nowhere.csv --query-column a --positive-column b": "nowhere.csv",
    **{f"finetune {task} --train nowhere.csv --output new": "nowhere.csv" for task in TASKS},
    f"{_CLASSIFY} --eval nowhere.csv --output new": "nowhere.csv",
    "distill classify --teacher all-MiniLM-L6-v2 --num-layers 1 --train nowhere.csv --output new": "nowhere.csv",
    "distill pretrain nowhere.txt --teacher all-MiniLM-L6-v2 --num-layers 1 --steps 1 --output new": "nowhere.txt",
    _PRETRAIN.replace("texts.txt", "nowhere.txt"): "nowhere.txt",
    _PRETRAIN.replace("vocab.txt", "nowhere.txt"): "nowhere.txt",
    _PRETRAIN.replace("vocab.txt", "paper.pdf"): "paper.pdf is a PDF; expected a vocabulary",
    "summary paper.pdf": "'paper.pdf' is a file, a PDF",
    f"{_PRETRAIN} --eval nowhere.txt": "nowhere.txt",
    _PRETRAIN.replace("tiny", "nowhere.json"): "nowhere.json",
    f"{_PRETRAIN} --preset {_MODEL}": "--size, for new weights, or --preset",
    _PRETRAIN.replace("--vocab vocab.txt --size tiny", ""): "--size, for new weights, or --preset",
    _PRETRAIN.replace("--vocab vocab.txt", ""): "--vocab is for --size, which needs it",
    _PRETRAIN.replace("--size tiny", f"--preset {_MODEL}"): "--vocab is for --size, which needs it",
    "launch --workers 2 -- serve": "launch runs finetune, pretrain, distill, not serve",
    "serve nowhere": "nowhere",
    "serve empty": "empty has no version",
    "export --check nowhere": "nowhere",
    **{f"{each} --precision int8 --calibration nowhere.txt": "nowhere.txt" for each in TAKES_PRECISION},
    # Outputs.
    **{f"{command} --output exists.jsonl": "exists.jsonl exists" for command in (*WRITES_LINES, "search empty text")},
    **{f"{command} --output nowhere/new.jsonl": "cannot write nowhere/new.jsonl" for command in WRITES_LINES},
    "attention a --output exists.html": "exists.html exists",
    **{f"attention a --output {name}": "ends in .html or .png" for name in ("new.gif", "new", "-")},
    "senses cat --file texts.txt --output new.gif": "new.gif",
    "evaluate all-MiniLM-L6-v2 table.csv --errors exists.jsonl": "exists.jsonl exists",
    "evaluate all-MiniLM-L6-v2 table.csv --report exists.html": "exists.html exists",
    "evaluate all-MiniLM-L6-v2 table.csv --report nowhere/new.html": "nowhere/new.html",
    "project --file texts.txt --output empty": "empty exists",
    "convert all-MiniLM-L6-v2 empty": "empty exists",
    "inspect nowhere": "'nowhere' is neither a directory nor a known preset",
    "vocab nowhere.txt --size 9 --output vocab.txt": "vocab.txt exists",
    "vocab texts.txt --size 9 --output nowhere/new.txt": "nowhere",
    **{f"export {kind} --output empty": "empty exists" for kind in DIRECTORIES},
    **{f"{command} --output texts.txt/new": "texts.txt/new" for command in WRITES_DIRECTORIES},
    "convert all-MiniLM-L6-v2 texts.txt/new": "texts.txt/new",
    "project --file texts.txt --overwrite --output empty": "is not replaced",
    "export preprocessor --overwrite --output empty": "is not replaced",
    "vocab nowhere.txt --size 9 --output empty": "empty exists",
    f"{_CLASSIFY} --output empty": "empty exists and is not the directory of a run",
    "finetune tag --train words.conll --output empty": "empty exists and is not the directory of a run",
    f"{_CLASSIFY} --output damaged": "of a run; choose another output, or start again with overwrite",
    _PRETRAIN.replace("new", "empty"): "empty exists and is not the directory of a run",
    **{
        f"{command} new.{end}": f"new.{end}: {command.split()[0]} does not write {end.lower()}"
        for end in ("parquet", "JSON")
        for command in (*_NAMES_FORMATS, f"evaluate {_MODEL} table.csv --report")
    },
    "mine pairs.csv --output a.xlsx": "choose a name that ends in .jsonl or .ndjson or .csv or .tsv",
    "predict {classifier} --file table.csv --text-column review --sheet S": "only a workbook has sheets",
    "encode --file texts.txt --output /proc/x.npy": "/proc/x.npy: No such file or directory",
    "project --file texts.txt --output /proc/x.npy": "/proc/x.npy: No such file or directory",
    "embed table.csv --text-column review --output /proc/x": "cannot write into /proc/x: No such file or directory",
    # Columns.
    "embed table.csv --text-column Review --output new": "did you mean 'review'?",
    "embed rows.jsonl --text-column Review --output new": "Review",
    "index table.csv --text-column Review --output new": "did you mean 'review'?",
    "duplicates table.csv --text-column Review": "did you mean 'review'?",
    "mine pairs.csv --query-column Query --output new.jsonl": "did you mean 'query'?",
    "mine pairs.csv --corpus table.csv --text-column Review --output new.jsonl": "did you mean 'review'?",
    f"{_CLASSIFY.replace('review', 'Review')} --output new": "did you mean 'review'?",
    f"{_CLASSIFY} --text-pair-column other --output new": "'other'",
    f"{_CLASSIFY} --label-column labels --output new": "did you mean 'label'?",
    f"{_CLASSIFY} --eval pairs.csv --output new": "pairs.csv has no column 'review'",
    "finetune classify --train rows.jsonl --text-column Review --output new": "did you mean 'review'?",
    "finetune classify --train table.csv --no-header --text-column 3 --output new": "has no column 3",
    "finetune rank --train table.csv --text-column review --output new": "'text_pair'",
    "finetune embed --train pairs.csv --positive-column answer --output new": "'answer'",
    "finetune embed --train pairs.csv --negative-column hard --output new": "'hard'",
    "distill classify --teacher all-MiniLM-L6-v2 --num-layers 1 --train table.csv --output new": "'text'",
    **{
        f"{command} {option}": "--choice-column is for a BertMultipleChoice, which needs it, twice or more"
        for command in ("predict {classifier} --file table.csv", "evaluate {classifier} table.csv --text-column review")
        for option in ("--question-column review", "--choice-column label")
    },
    "predict {classifier} --file table.csv": (
        "table.csv has no column 'text'; its columns are 'review', 'label'; choose one with --text-column"
    ),
    **{
        f"{command} FILE --output new".replace("FILE", "rows.jsonl"): (
            "rows.jsonl has no column 'text'; its columns are 'review', 'label'; choose one with --text-column"
        )
        for command in ("embed", "index", "finetune classify --train", "predict {classifier} --file")
    },
    "duplicates rows.jsonl": "has no column 'text'; its columns are 'review', 'label'; choose one with --text-column",
    "mine table.csv --output new.jsonl": "'review', 'label'; choose one with --query-column",
    "finetune classify --train pairs.csv --text-column query --output new": "choose one with --label-column",
    "finetune rank --train pairs.csv --output new": "'query', 'positive'; choose one with --query-column",
    "finetune rank --train pairs.csv --query-column query --output new": "choose one with --passage-column",
    "predict {classifier} --file table.csv --text-column Review": "did you mean 'review'?",
    "evaluate {classifier} table.csv": "'text'",
    "evaluate {classifier} table.csv --text-column review --label-column labels": "did you mean 'label'?",
    "evaluate all-MiniLM-L6-v2 pairs.csv --query-column Query --positive-column positive": "did you mean 'query'?",
    "evaluate all-MiniLM-L6-v2 pairs.csv --query-column query --positive-column positive --corpus table.csv": "'text'",
    # Options.
    "encode text --format npy": "npy needs --output",
    "encode text --output new.csv": "does not write csv",
    "encode text --batch-tokens 0": "0",
    "export serving --output new --text-column text": "are for a table of --calibration",
    "encode text --calibration texts.txt": "--calibration is for --precision int8",
    "encode text --precision int8 --calibration blank.txt": "is empty",
    "encode text --prompt nothing": "'nothing'",
    "embed table.csv --text-column review --prompt nothing --output new": "'nothing'",
    "embed table.csv --text-column review --batch-tokens 0 --output new": "0",
    "embed table.csv table.csv --text-column review --output new": "table.csv",
    "embed texts.txt --output new": "texts.txt",
    "project --file texts.txt --prompt nothing --output new": "'nothing'",
    "project --file texts.txt --batch-tokens 0 --output new": "0",
    "similarity a b --prompt nothing": "'nothing'",
    "export serving --prompt nothing --output new": "'nothing'",
    "export serving --task fill --signature transformers --output new": "takes ids",
    "similarity a b --top-k 1 --output new.npy": "--top-k",
    "similarity a": "two texts",
    "tokenize text --explain --format jsonl": "--explain writes a table, not jsonl",
    "tokenize text --explain --output a.jsonl": "--explain writes a table, not jsonl",
    "tokenize text --text-pair other": "--text-pair",
    "index texts.txt --remove id=1 --output new": "--remove",
    "index --remove id=1 --add --output new": "--add",
    "index texts.txt --batch-tokens 0 --output new": "0",
    "duplicates texts.txt --batch-tokens 0": "0",
    "mine pairs.csv --negatives 0 --output new.jsonl": "0",
    "mine pairs.csv --range-min 9 --range-max 3 --output new.jsonl": "range",
    "evaluate all-MiniLM-L6-v2 pairs.csv --query-column query": "give both --query-column and --positive-column",
    "evaluate all-MiniLM-L6-v2 pairs.csv --precision float32 --calibration texts.txt": "--calibration",
    "predict all-MiniLM-L6-v2 text --calibration texts.txt": "--calibration",
    "predict all-MiniLM-L6-v2 text --skip-bad": "--skip-bad",
    **{
        f"{command} --no-answer-threshold {value}": text
        for command in (
            f"predict {_MODEL} text",
            f"evaluate {_MODEL} table.csv",
            f"export serving --preset {_MODEL} --output new",
            f"export onnx --preset {_MODEL} --output new",
        )
        for value, text in (("0.5", "is for question answerers"), ("nan", "--no-answer-threshold is nan"))
    },
    f"export onnx --preset {_MODEL} --encoder --no-answer-threshold 0.5 --output new": "hidden states",
    f"export onnx --preset {_MODEL} --encoder --task fill --output new": "hidden states",
    "finetune answer --train squad.json --output new --no-answer-threshold inf": "--no-answer-threshold is inf",
    "summary bert-base --precision int8": "bert-base is a size",
    "vocab texts.txt --kind bytepair --size 9 --output new.txt": "bytepair",
    "convert all-MiniLM-L6-v2 new --to nothing": "'nothing'",
    "export": "--check",
    "export --check x encoder --output new": "give a command (",
    _PRETRAIN.replace("tiny", "gigantic"): "'gigantic'",
    f"{_PRETRAIN} --sequence-length 2": "2",
    f"{_CLASSIFY} --epochs 0 --output new": "epochs",
    f"{_CLASSIFY} --learning-rate -1 --output new": "--learning-rate is -1.0",
    f"{_CLASSIFY} --batch-size 8 --batch-tokens 256 --output new": "--batch-tokens",
    f"{_CLASSIFY} --class-weight good --output new": "LABEL=NUMBER",
    f"{_CLASSIFY} --eval table.csv --validation-split 0.5 --output new": "validation",
    "finetune rank --train table.csv --score-column label --output new": "other texts of a row with --negative-column",
    f"{_RANK} --negative-column a": "pairs.csv has no column 'a'; its columns are 'query', 'positive'",
    f"{_RANK} --negative-column query --score-column a --score-column b --score-column c": "scores: 3, but texts: 2",
    "finetune rank --train table.csv --negative-column a --label-column label --output new": "--label-column",
    "finetune rank --train table.csv --loss lambda --output new": "the other texts of a row with --negative-column",
    "finetune embed --train pairs.csv --score-column a --score-column b --output new": "columns of scores",
    **{
        f"finetune embed --train pairs.csv --matryoshka-dims {dims} --output new": f"dims is {dims}; expected"
        for dims in ("a", "32,x", "0", ",")
    },
    "finetune embed --train pairs.csv --query-prompt nothing --output new": "'nothing'",
    **{command.format(handle): text for command in TAKES_PRESET for handle, text in PRESETS.items()},
    **{command.format(handle): handle for command in TAKES_TOKENIZER for handle in PRESETS if handle != "strange"},
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory, classifier):
    """The exit code and the message of each wrong command, all run in a folder with `FILES`."""
    folder = tmp_path_factory.mktemp("wrong")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    commands = [shlex.split(command.format(classifier=classifier)) for command in WRONG]
    result = subprocess.run(
        [sys.executable, wrong_calls.__file__], cwd=folder, input=json.dumps(commands), text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == sorted(FILES)
    return dict(zip(WRONG, json.loads(result.stdout), strict=True))


@pytest.mark.parametrize("command", WRONG)
def test_a_wrong_call_ends_before_tensorflow_is_imported(outcomes, command):
    code, message = outcomes[command]
    assert (code in (1, 2), WRONG[command] in message) == (True, True), message
