"""Views of an encoder: the attention of every head, and a word in many sentences.

attention_weights.py  a text and an encoder -> its tokens and their attention weights
view.py               shows them: in a notebook, or in a file; the picture, for papers
page.py               the page; page/ holds its parts
senses.py             a word and a text -> the word's vectors, in two dimensions
evaluation_page.py    the measures and the worst answers of a model, as a page; the frame of pages without scripts
"""

from keras_bert.visualize.view import AttentionView, attention

__all__ = ["AttentionView", "attention"]
