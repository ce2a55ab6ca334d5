# It imports torch, which `make test` does not need; pytest would import it in search of doctests.
collect_ignore = ["make_golden.py"]
