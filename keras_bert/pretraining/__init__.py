"""Corpora -> examples -> objectives: how a BERT is made (Devlin et al. 2018, section 3.1)."""

from keras_bert.pretraining.masking import MaskedLMMasking, unmasked

__all__ = ["MaskedLMMasking", "unmasked"]
