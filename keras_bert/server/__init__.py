"""A small local server that speaks TF Serving's protocols, for any SavedModel with signatures.

    run.py              starts and drains the server
    rest.py             answers HTTP; JSON <-> arrays
    grpc_service.py     answers gRPC
    versions.py         finds, loads, swaps and drains the versions of a model; metadata and status
    predicting.py       runs the model on named arrays, for both protocols; merges waiting requests into batches
    model.py            one version: a SavedModel in a session, its signatures, and its warm-up requests
    errors.py           errors, a canonical status code and a message; the largest size of a request

It answers Predict, GetModelMetadata, GetModelStatus and health checks. TF Serving itself also has Classify, Regress and
tf.Example. Neither the server nor a served model uses the rest of the package.
"""
