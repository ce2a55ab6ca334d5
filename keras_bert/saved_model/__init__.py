"""What TF Hub and TF Serving read, and HubLayer, which reads theirs."""
