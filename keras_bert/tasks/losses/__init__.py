"""Losses: of texts' classes, of sentence vectors, and of rankings. `keras_bert.tasks` exports those of users."""
