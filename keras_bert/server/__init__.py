"""A small local server that speaks TF Serving's protocols, for any SavedModel with signatures.

    run.py              starts it, drains it
    rest.py             HTTP <-> predicting, by way of json_tensors.py and json_examples.py
    grpc_service.py     gRPC <-> predicting, by way of tensor_protos.py
    predicting.py       named arrays in, named arrays out, for both protocols
    batching.py         runs the requests that wait in common
    versions.py         finds, loads, swaps and drains the versions of a model; warmup.py
    model.py            one version: a SavedModel in a session; signatures.py
    errors.py           what can go wrong, as a canonical status code and TF Serving's words

Nothing here uses the rest of the package: what it serves needs none of it.
"""
