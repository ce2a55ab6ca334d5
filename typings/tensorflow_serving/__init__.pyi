"""Types of TensorFlow Serving's messages are not checked: protobuf makes their classes when they are imported."""
