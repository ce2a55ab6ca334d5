"""What all tasks are made of: their base class, its files, and how texts become rows and batches."""
