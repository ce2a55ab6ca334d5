"""Examples and a model -> a better model: optimizer and schedule, batches by length, measures, resuming."""
