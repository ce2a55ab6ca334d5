"""Real sentences, all of them in the public domain or ours, in several languages."""

# Lengths from one word to several dozen pieces; accents, scripts without spaces, digits, punctuation, an emoji.
TEXTS = [
    "Call me Ishmael.",
    "It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a "
    "wife.",
    "Habe nun, ach! Philosophie, Juristerei und Medizin, und leider auch Theologie durchaus studiert, mit heißem "
    "Bemühn.",
    "Longtemps, je me suis couché de bonne heure.",
    "En un lugar de la Mancha, de cuyo nombre no quiero acordarme, no ha mucho tiempo que vivía un hidalgo",
    "學而時習之，不亦說乎？",
    "Все счастливые семьи похожи друг на друга.",
    "The bank raised its rate by 0.25% (to 5.5%) on 3 May; the river bank, 40 km away, flooded \U0001f642",
    "Yes",
]
PAIRS = [(TEXTS[0], TEXTS[3]), (TEXTS[7], TEXTS[1]), (TEXTS[8], TEXTS[8])]
