"""A small local server that speaks TF Serving's protocols, for any SavedModel with signatures.

    run.py              starts and drains the server
    rest.py             HTTP <-> predicting, with json_tensors.py and example_requests.py
    grpc_service.py     gRPC <-> predicting, with tensor_protos.py and example_requests.py
    model_info.py       metadata and status of a model, for both protocols
    predicting.py       named arrays -> named arrays, for both protocols
    batching.py         merges waiting requests into batches
    versions.py         finds, loads, swaps and drains the versions of a model; warmup.py
    served_model.py     one version: a SavedModel in a session; signatures.py
    errors.py           errors: a canonical status code and a message
    limits.py           the largest size of a request

Neither the server nor a served model uses the rest of the package.
"""
