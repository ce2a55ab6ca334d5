"""Other people's weight files <-> ours: arrays by name. Knows no layers, only names and shapes."""
