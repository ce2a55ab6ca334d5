"""Steps of training: the loss of a batch and its terms, on several devices, by mini-batches, from few examples."""
