"""How saved_models/bert-books was made: a small BERT, pre-trained on forty novels in the public domain.

    pip install 'keras-bert-models[train,vocab]'
    python examples/bert_books.py FOLDER [--output my-bert] [--steps 5000] [--then-steps 2000]

FOLDER gets the novels, about 400 MB as Standard Ebooks (https://standardebooks.org) keeps them, in git. Two more are
held out. If it is interrupted, the same command goes on where it stopped. It takes 90 minutes of CPU time.
"""

import argparse
import json
import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from keras_bert.text import learn_vocabulary
from keras_bert.training import pretrain_files

SOURCE = "https://github.com/standardebooks"
HELD_OUT = ["arthur-conan-doyle_the-hound-of-the-baskervilles", "jerome-k-jerome_three-men-in-a-boat"]
BOOKS = """
agatha-christie_the-murder-on-the-links agatha-christie_the-mysterious-affair-at-styles
agatha-christie_the-secret-adversary arthur-conan-doyle_the-adventures-of-sherlock-holmes
arthur-conan-doyle_the-memoirs-of-sherlock-holmes arthur-conan-doyle_the-return-of-sherlock-holmes
bram-stoker_dracula charles-dickens_david-copperfield charles-dickens_great-expectations
charlotte-bronte_jane-eyre e-m-forster_howards-end edith-wharton_the-age-of-innocence
f-scott-fitzgerald_the-great-gatsby frances-hodgson-burnett_the-secret-garden
fyodor-dostoevsky_crime-and-punishment_constance-garnett h-g-wells_the-invisible-man h-g-wells_the-war-of-the-worlds
j-m-barrie_peter-and-wendy jack-london_martin-eden jack-london_white-fang jane-austen_emma
jane-austen_pride-and-prejudice john-buchan_the-thirty-nine-steps kenneth-grahame_the-wind-in-the-willows
l-frank-baum_the-wonderful-wizard-of-oz l-m-montgomery_anne-of-green-gables l-m-montgomery_anne-of-the-island
leo-tolstoy_anna-karenina_constance-garnett louisa-may-alcott_little-women mark-twain_the-adventures-of-tom-sawyer
mary-shelley_frankenstein p-g-wodehouse_psmith-in-the-city p-g-wodehouse_right-ho-jeeves
robert-louis-stevenson_treasure-island rudyard-kipling_the-jungle-book sinclair-lewis_babbitt
sinclair-lewis_main-street theodore-dreiser_sister-carrie wilkie-collins_the-moonstone willa-cather_my-antonia
""".split()  # noqa: SIM905

# As wide as 8,000 tokens and four layers allow in 7 MB. Without dropout: it sees each sentence about four times only.
CONFIG = {
    "model_type": "bert", "architectures": ["BertForPreTraining"], "hidden_size": 192,
    "num_hidden_layers": 4, "num_attention_heads": 6, "intermediate_size": 768, "max_position_embeddings": 128,
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.04,
}  # fmt: skip
XHTML, IS_NOTE = "{http://www.w3.org/1999/xhtml}", "{http://www.idpf.org/2007/ops}type"
NOT_STORY = re.compile("titlepage|imprint|colophon|uncopyright|halftitle|endnotes|dedication|epigraph|loi|preface|toc|"
                       "introduction|foreword")  # fmt: skip


def read_book(folder: Path) -> str:
    """Reads the paragraphs of a book's chapters, without notes, with a blank line between two."""
    chapters = re.findall(r'<itemref idref="([^"]+)"', (folder / "src/epub/content.opf").read_text("utf-8"))
    paragraphs = []
    for chapter in chapters:
        if NOT_STORY.match(chapter):
            continue
        for paragraph in ET.parse(folder / "src/epub/text" / chapter).iter(f"{XHTML}p"):
            for link in paragraph.iter(f"{XHTML}a"):
                if "noteref" in link.get(IS_NOTE, ""):
                    link.text = ""
            text = re.sub("[\u2060\u200a\u200b\ufeff]", "", "".join(paragraph.itertext()))
            paragraphs.append(" ".join(text.split()))
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for the novels")
    parser.add_argument("--output", type=Path, default=Path("my-bert"), help="a directory for the model")
    parser.add_argument("--steps", type=int, default=5000, help="all batches, the first of 128 rows of 32 tokens")
    parser.add_argument("--then-steps", type=int, default=2000, help="the last ones, of 32 rows of 128 tokens")
    parser.add_argument("--books", nargs="*", default=BOOKS, help="names of repositories, in place of the forty")
    arguments = parser.parse_args()
    folder = arguments.folder
    for kind, names in (("train", arguments.books), ("held-out", HELD_OUT)):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for name in names:
            if not (text := folder / kind / f"{name}.txt").exists():
                clone = folder / "git" / name
                if not clone.exists():
                    subprocess.run(["git", "clone", "--quiet", "--depth=1", f"{SOURCE}/{name}", clone], check=True)
                text.write_text(read_book(clone), "utf-8")

    if not (folder / "vocab.txt").exists():
        learn_vocabulary(sorted((folder / "train").glob("*.txt")), size=8000).save_preset(folder, overwrite=True)
    tokens = len((folder / "vocab.txt").read_text("utf-8").splitlines())
    (folder / "config.json").write_text(json.dumps({**CONFIG, "vocab_size": tokens}))
    # Short rows first: there a model soon learns to attend to neighbours. Then rows as long as the model reads.
    measures = pretrain_files(
        folder / "train", arguments.output, folder / "held-out",
        vocab=folder / "vocab.txt", size=str(folder / "config.json"), learning_rate=1e-3,
        steps=arguments.steps, batch_size=128, sequence_length=32,
        then_steps=arguments.then_steps, then_batch_size=32, then_length=128, measure_every=500,
    )  # fmt: skip
    for name, value in measures.items():
        print(f"{name}\t{value:.4f}")

    # In half precision, the file is half as large; a guess's probability differs in the fourth digit.
    weights = load_file(arguments.output / "model.safetensors")
    save_file({name: value.astype(np.float16) for name, value in weights.items()},
              arguments.output / "model.safetensors", {"format": "pt"})  # fmt: skip


if __name__ == "__main__":
    main()
