# It imports torch, which make test does without; pytest would import it in search of doctests.
collect_ignore = ["make_golden.py"]
