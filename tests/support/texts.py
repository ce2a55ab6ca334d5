"""Sentences to test on, in the public domain or ours: real ones, pairs of them, and some in each script."""

# Lengths from one word to several dozen tokens; accents, scripts without spaces, digits, punctuation, an emoji.
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

# A sentence or two in each script, and characters with a rule of their own.
SENTENCES = [
    "The quick brown fox doesn't jump over 3.5 “lazy” dogs — or does it?",
    "Übergrößenträger füßen auf Straßenbahnschienen; ÄÖÜ, ß und ẞ.",
    "Dès Noël où un zéphyr haï me vêt de glaçons würmiens, je dîne d’exquis rôtis de bœuf.",
    "El pingüino Wenceslao hizo kilómetros; ¿qué vive allí? ¡Él, solo, año tras año!",
    "Příliš žluťoučký kůň úpěl ďábelské ódy. Łódź, Kraków.",
    "Pijamalı hasta yağız şoföre çabucak güvendi: İSTANBUL, IĞDIR, ığdır.",
    "Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία. ΟΔΥΣΣΕΥΣ ΣΟΦΟΣ, Σ.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. ЙОД, Ёж.",
    "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر، كِتَابٌ.",
    "דג סקרן שט בים מאוכזב ולפתע מצא חברה, בְּרֵאשִׁית",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश किया।",
    "আমি কাঁচ খেতে পারি, তাতে আমার কোনো ক্ষতি হয় না।",
    "நான் கண்ணாடி சாப்பிடுவேன், அதனால் எனக்கு ஒரு கேடும் வராது.",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน",
    "我能吞下玻璃而不伤身体。漢字、𠀀𪚥與標點！",
    "いろはにほへと ちりぬるを。ガラスは食べられます、ﾊﾝｶｸ。",
    "나는 유리를 먹을 수 있어요. 그래도 아프지 않아요",
    "Tôi có thể ăn thủy tinh mà không hại gì. Đường Nguyễn Huệ",
    "👩‍👩‍👧‍👦 family, 🇫🇷 flag, 👍🏽 thumbs, ❤️ heart, 1️⃣ keycap, 🏴󠁧󠁢󠁥󠁮󠁧󠁿 tag",
    "soft\u00adhyphen zero\u200bwidth\ufeff nbsp\u00a0here line\u2028para\u2029 nel\x85 tab\tnew\r\nline \0nul \ufffd",
    "e\u0301 vs é, a\u0323\u0302\u0301b, \u0301leading, x\u0300\u0301\u0302\u0303 \u0344 A\u030a Å Å K ſ ﬁ ㎏ ½ ² ªº",
]
