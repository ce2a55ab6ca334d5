"""The table of losses, a row each. Whatever lists losses reads it; it imports nothing heavy."""

from typing import NamedTuple


class Loss(NamedTuple):
    """A loss."""

    maker: str  # its class, or the function that makes it, with its file in `keras_bert/tasks/losses/`
    # What learns by it if it is chosen by its name: problem types of texts, "rankings", "vectors" or "token_vectors".
    # Empty: it needs arguments, or labels that files of examples do not hold.
    learners: tuple[str, ...] = ()
    in_batch: bool = False  # whether it ranks the texts of a batch, by cosines times a scale or by dot products


_CLASSES = ("single_label_classification", "multi_label_classification")
_VECTORS = ("vectors", "token_vectors")

LOSSES = {
    "focal": Loss("class_losses.FocalLoss", _CLASSES),
    "scaled_mean_squared_error": Loss("class_losses.ScaledMeanSquaredError"),
    "binary_cross_entropy": Loss("ranking_losses.binary_cross_entropy", ("rankings",)),
    "lambda": Loss("ranking_losses.LambdaLoss", ("rankings",)),
    "list_net": Loss("ranking_losses.ListNetLoss", ("rankings",)),
    "multiple_negatives_ranking": Loss("sentence_losses.MultipleNegativesRankingLoss", _VECTORS, in_batch=True),
    "multiple_negatives_symmetric_ranking": Loss(
        "sentence_losses.MultipleNegativesSymmetricRankingLoss", _VECTORS, True
    ),
    "cosent": Loss("sentence_losses.CoSENTLoss", ("vectors",)),
    "angle": Loss("sentence_losses.AnglELoss", ("vectors",)),
    "cosine_similarity": Loss("sentence_losses.CosineSimilarityLoss", ("vectors",)),
    "contrastive": Loss("sentence_losses.ContrastiveLoss", ("vectors",)),
    "triplet": Loss("sentence_losses.TripletLoss", ("vectors",)),
    "margin_mse": Loss("sentence_losses.MarginMSELoss", (*_VECTORS, "rankings")),
    "distill_kl_div": Loss("sentence_losses.DistillKLDivLoss", _VECTORS),
    "gist_embed": Loss("sentence_losses.GISTEmbedLoss"),
    "matryoshka": Loss("sentence_losses.MatryoshkaLoss"),
    "splade": Loss("sentence_losses.SpladeLoss"),
    "vector_mse": Loss("sentence_losses.VectorMSELoss"),
}

# Learner -> its losses by default, of which the first holds whose needs are met: rows of two texts ("pair"), a better
# model's "scores"; and how help says these needs. Classes and numbers have Keras's losses.
_DEFAULTS = {
    "rankings": (
        ("binary_cross_entropy", {"pair"}, "for pairs"),
        ("margin_mse", {"scores"}, "for lists with scores"),
        ("lambda", set(), ""),
    ),
    "vectors": (
        ("cosent", {"pair", "scores"}, "for pairs with scores"),
        ("margin_mse", {"scores"}, "for more texts with scores"),
        ("multiple_negatives_ranking", set(), ""),
    ),
    "token_vectors": (("distill_kl_div", {"scores"}, "with scores"), ("multiple_negatives_ranking", set(), "")),
}


def default_loss(learner: str, is_pair: bool = False, has_scores: bool = False) -> str:
    """Names the loss that a learner has by default."""
    given = {need for need, is_given in {"pair": is_pair, "scores": has_scores}.items() if is_given}
    return next(loss for loss, needs, _ in _DEFAULTS[learner] if needs <= given)


def loss_help(learner: str) -> str:
    """Says what the loss is by default, for the help of commands."""
    *others, (last, _, _) = _DEFAULTS[learner]
    return f"The loss. By default {', '.join(f'{loss} {form}' for loss, _, form in others)}, else {last}"


def losses_of(*learners: str) -> tuple[str, ...]:
    """Names the losses that one of these learners can choose."""
    return tuple(name for name, loss in LOSSES.items() if not {*loss.learners}.isdisjoint(learners))


def loss_classes() -> dict[str, list[str]]:
    """Lists the classes of losses, which Keras saves, by their files in `keras_bert/tasks/losses/`."""
    classes: dict[str, list[str]] = {}
    for loss in LOSSES.values():
        file, name = loss.maker.split(".")
        if name[0].isupper():  # not a function
            classes.setdefault(file, []).append(name)
    return classes
