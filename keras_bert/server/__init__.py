"""A small local server that speaks TF Serving's protocols."""
