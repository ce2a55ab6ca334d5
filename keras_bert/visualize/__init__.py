"""Views of an encoder: the attention of every head, and a word in many sentences.

attention_weights.py  computes the tokens and the attention weights of a text
view.py               shows them in a notebook, or writes them to a file: a page, or a picture for papers
page.py               makes the page; page/ holds its parts
senses.py             computes the vectors of a word in a text, in two dimensions
evaluation_page.py    shows a model's measures and worst answers; makes the frame of pages without scripts
"""

from keras_bert.visualize.senses import Occurrence, Senses, find_senses
from keras_bert.visualize.view import AttentionView, attention

__all__ = ["AttentionView", "Occurrence", "Senses", "attention", "find_senses"]
