"""Asks a server as clients of text-embeddings-inference do, and prints what a client gets, as JSON.

It runs in an environment of its own, .venv-clients: its clients need huggingface_hub 1, and this package's tests 2.

    python tei_clients.py CLIENT < {"vectors": URL, "ranks": URL, "key": ..., "texts": [...], "query": ...,
        "passages": [...]}
"""

import json
import sys


def langchain(asked):
    import huggingface_hub
    from langchain_huggingface import HuggingFaceEndpointEmbeddings

    client = HuggingFaceEndpointEmbeddings()  # takes no URL
    client.client = huggingface_hub.InferenceClient(model=asked["vectors"], token=asked["key"])
    return {"texts": client.embed_documents(asked["texts"]), "text": client.embed_query(asked["texts"][0])}


def llama_index(asked):
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
    from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference
    from llama_index.postprocessor.tei_rerank import TextEmbeddingInference

    client = TextEmbeddingsInference(model_name="any", base_url=asked["vectors"], auth_token=asked["key"])
    nodes = [NodeWithScore(node=TextNode(text=text)) for text in asked["passages"]]
    reranker = TextEmbeddingInference(base_url=asked["ranks"], auth_token=f"Bearer {asked['key']}")
    ranked = reranker.postprocess_nodes(nodes, QueryBundle(asked["query"]))
    return {
        "texts": client.get_text_embedding_batch(asked["texts"]),
        "text": client.get_query_embedding(asked["texts"][0]),
        "ranked": [(each.node.text, each.score) for each in ranked],
    }


def haystack(asked):
    from haystack import Document
    from haystack.utils import Secret
    from haystack_integrations.components.embedders.huggingface_api import (
        HuggingFaceAPIDocumentEmbedder,
        HuggingFaceAPITextEmbedder,
    )
    from haystack_integrations.components.rankers.huggingface_api import HuggingFaceTEIRanker

    texts, passages = ([Document(content=text) for text in asked[name]] for name in ("texts", "passages"))
    token = Secret.from_token(asked["key"])
    place = {"api_type": "text_embeddings_inference", "api_params": {"url": asked["vectors"]}, "token": token}
    one = HuggingFaceAPITextEmbedder(**place, normalize=True)
    several = HuggingFaceAPIDocumentEmbedder(**place, normalize=True, progress_bar=False)
    ranker = HuggingFaceTEIRanker(url=asked["ranks"], token=token)
    ranked = ranker.run(query=asked["query"], documents=passages)["documents"]
    return {
        "texts": [each.embedding for each in several.run(documents=texts)["documents"]],
        "text": one.run(text=asked["texts"][0])["embedding"],
        "ranked": [(each.content, each.score) for each in ranked],
    }


if __name__ == "__main__":
    json.dump(globals()[sys.argv[1]](json.load(sys.stdin)), sys.stdout)
