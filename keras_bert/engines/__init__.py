"""Engines: run the graphs of exports, and make models of them that answer texts. They need no TensorFlow."""
