# They import torch and transformers 4, which `make test` does not need; pytest would import them in search of doctests.
collect_ignore = ["make_golden.py", "make_transformers4.py"]
