"""Each function of `keras_bert.undocumented`, by itself. What fails names the symbol that has changed."""

import functools
import gc
import inspect
import platform
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from keras_bert import undocumented
from keras_bert.inference import onednn
from keras_bert.optimizers import AdamW

_TESTED = set()


def stands_on(name, symbol):
    """Marks the test of a function of `undocumented`. Any failure becomes a sentence about `symbol`."""
    _TESTED.add(name)

    def decorate(test):
        @functools.wraps(test)
        def with_sentence(*args, **kwargs):
            try:
                test(*args, **kwargs)
            except (Exception, pytest.fail.Exception) as error:
                sentence = f"{symbol} is gone or has changed: see keras_bert.undocumented.{name}"
                raise AssertionError(sentence) from error

        return with_sentence

    return decorate


def test_each_has_a_test():
    defined = {
        name
        for name, value in vars(undocumented).items()
        if inspect.getmodule(value) is undocumented and not name.startswith("_")
    }
    assert len(defined) > 20
    assert defined == _TESTED


def test_a_failure_names_the_symbol(monkeypatch):
    owner = next(each for each in keras.optimizers.Optimizer.__mro__ if "_clip_gradients" in vars(each))
    monkeypatch.delattr(owner, "_clip_gradients")
    sentence = r"keras.optimizers.Optimizer._clip_gradients is gone or has changed: see keras_bert.undocumented.clip_g"
    with pytest.raises(AssertionError, match=sentence):
        test_clip_gradients({"clipvalue": 2.0}, [[2.0, -2.0], [0.0, 2.0]])


# -- Keras: layers and variables


class Outer(keras.layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inner = keras.Sequential([keras.layers.Dense(2, name="first")])
        self.others = [keras.layers.Dense(2, name="second")]


@stands_on("flatten_layers", "keras.Layer._flatten_layers")
def test_flatten_layers():
    outer = Outer(name="outer")
    names = [layer.name for layer in undocumented.flatten_layers(outer)]
    assert sorted(names) == sorted(["outer", outer.inner.name, "first", "second"])


@stands_on("set_initializer", "keras.Variable._initializer")
def test_set_initializer():
    asked = []

    def initializer(shape, dtype):
        asked.append((tuple(shape), dtype))
        return np.full(shape, 7, dtype)

    with keras.StatelessScope():
        dense = keras.layers.Dense(3)
        dense.build((None, 2))
        undocumented.set_initializer(dense.kernel, initializer)
    assert asked == [((2, 3), "float32")]
    np.testing.assert_array_equal(dense.kernel, np.full((2, 3), 7))


@stands_on("wrap_variable", "keras.Variable._initialize")
def test_wrap_variable():
    layer, value = keras.layers.Layer(), tf.Variable([1.0, 2.0])
    weight = layer.add_weight(shape=(2,), initializer="zeros")
    undocumented.wrap_variable(weight, value)
    assert weight.value is value
    weight.assign([3.0, 4.0])
    assert value.numpy().tolist() == [3, 4]


@keras.saving.register_keras_serializable(package="tests_of_undocumented")
class AsksForSafeMode(keras.layers.Layer):
    @classmethod
    def from_config(cls, config):
        layer = cls(**config)
        layer.in_safe_mode = undocumented.in_safe_mode()
        return layer


@stands_on("in_safe_mode", "keras.src.saving.serialization_lib.in_safe_mode")
def test_in_safe_mode(tmp_path):
    model = keras.Sequential([keras.Input([2]), AsksForSafeMode()])
    model.save(tmp_path / "model.keras")
    for safe in (True, False):
        loaded = keras.models.load_model(tmp_path / "model.keras", safe_mode=safe)
        assert loaded.layers[0].in_safe_mode is safe
    assert undocumented.in_safe_mode() is None


# -- Keras: LoRA of dense layers, and seeds


def _adapted():
    dense = keras.layers.Dense(3, use_bias=False)
    dense.build((None, 2))
    before = keras.ops.convert_to_numpy(dense.kernel)
    dense.enable_lora(rank=2, lora_alpha=6)
    dense.lora_kernel_b.assign(np.ones([2, 3]))
    change = 3 * keras.ops.convert_to_numpy(dense.lora_kernel_a) @ np.ones([2, 3], np.float32)
    return dense, before, change


@stands_on("get_mask", "keras.src.backend.get_keras_mask")
def test_mask_of():
    words = keras.ops.array([[3, 0]])
    mask = undocumented.get_mask(keras.layers.Embedding(4, 2, mask_zero=True)(words))
    assert np.array(mask).tolist() == [[True, False]]
    assert undocumented.get_mask(words) is None


@stands_on("set_mask", "keras.src.backend.set_keras_mask")
def test_set_mask():
    values = keras.ops.array([[3.0, 5.0]])
    undocumented.set_mask(values, keras.ops.array([[True, False]]))
    assert np.array(undocumented.get_mask(values)).tolist() == [[True, False]]


@stands_on("has_lora", "keras.layers.Dense.lora_enabled")
def test_has_lora():
    assert undocumented.has_lora(_adapted()[0])
    assert not undocumented.has_lora(keras.layers.Dense(3))
    assert not undocumented.has_lora(keras.layers.Dropout(0.1))


@stands_on("lora_change", "keras.layers.Dense.lora_alpha, .lora_rank, .lora_kernel_a or .lora_kernel_b")
def test_lora_change():
    dense, before, change = _adapted()
    np.testing.assert_allclose(undocumented.lora_change(dense), change, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dense.kernel, before + change, rtol=1e-5, atol=1e-6)


@stands_on("merge_lora", "keras.layers.Dense.lora_kernel_a or .lora_kernel_b")
def test_merge_lora():
    dense, before, change = _adapted()
    undocumented.merge_lora(dense)
    assert not undocumented.has_lora(dense)
    assert [each is dense.kernel for each in dense.weights] == [True]
    np.testing.assert_allclose(dense.kernel, before + change, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dense(np.eye(2)), before + change, rtol=1e-5, atol=1e-6)


@stands_on("seed_states", "the name of keras.random.SeedGenerator.state")
def test_seed_states():
    model = keras.Sequential([keras.Input([2]), keras.layers.Dropout(0.1), keras.layers.GaussianNoise(1.0)])
    states = undocumented.seed_states(model)
    expected = [layer.seed_generator.state for layer in model.layers]
    assert {id(each) for each in states} == {id(each) for each in expected}


@stands_on("seed_after", "keras.random.SeedGenerator.state")
def test_seed_after():
    seeds = keras.random.SeedGenerator(7)
    first = tf.identity(seeds.state.value)
    for draws in range(3):
        assert seeds.state.numpy().tolist() == undocumented.seed_after(first, draws).numpy().tolist()
        seeds.next()


# -- Keras: models and losses


@stands_on("set_jit_compile", "keras.Model._jit_compile")
def test_set_jit_compile():
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    model.layers[0].supports_jit = False
    model.jit_compile = False
    undocumented.set_jit_compile(model, True)
    assert model.jit_compile is True


def _compiled():
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile("sgd", "mse")
    return model


@stands_on("loss_tracker", "keras.Model._loss_tracker")
def test_loss_tracker():
    model = _compiled()
    loss = model.test_on_batch(np.ones([3, 2]), np.zeros([3, 1]))
    assert float(undocumented.loss_tracker(model).result()) == loss == 4
    assert undocumented.loss_tracker(model) is model.metrics[0]


@stands_on("replace_loss_tracker", "keras.Model._loss_tracker")
def test_replace_loss_tracker():
    model, metric = _compiled(), keras.metrics.Sum(name="loss")
    undocumented.replace_loss_tracker(model, metric)
    assert [each is metric for each in model.metrics] == [True]
    assert model.evaluate(np.ones([3, 2]), np.zeros([3, 1]), batch_size=1, verbose=0) == 12
    assert undocumented.loss_tracker(model) is metric


@stands_on("loss_from_function", "keras.src.losses.losses.LossFunctionWrapper")
def test_loss_from_function():
    loss = undocumented.loss_from_function(lambda y, z: keras.ops.mean(abs(y - z), axis=-1), "distance")
    assert isinstance(loss, keras.losses.Loss)
    assert (loss.name, loss.reduction) == ("distance", "sum_over_batch_size")
    assert float(loss(np.zeros(2), np.array([[1.0], [3.0]]))) == 2  # not [2, 2] of them


class Recording(undocumented.BuiltFromOneReplica, keras.Sequential):
    def _symbolic_build(self, iterator=None, data_batch=None):
        self.built_from = keras.tree.map_structure(lambda each: tuple(each.shape), data_batch)
        super()._symbolic_build(iterator, data_batch)


@stands_on("BuiltFromOneReplica", "keras.Model._maybe_symbolic_build")
def test_built_from_one_replica():
    with tf.distribute.MirroredStrategy(["cpu:0"]).scope():
        model = Recording([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.fit(np.ones([4, 2]), np.zeros([4, 1]), batch_size=4, verbose=0)
    assert model.built_from == ((4, 2), (4, 1))
    assert model.layers[0].kernel.shape == (2, 1)


@stands_on("build_any_model_from_one_replica", "keras.src.backend.tensorflow.trainer.TensorFlowTrainer")
def test_build_any_model_from_one_replica(monkeypatch):
    """On two replicas, whose batches of strings Keras would add up."""
    monkeypatch.setattr(TensorFlowTrainer, "_maybe_symbolic_build", TensorFlowTrainer._maybe_symbolic_build)
    undocumented.build_any_model_from_one_replica()
    model, built_from = keras.Sequential([keras.layers.Dense(1)]), []
    model._distribute_strategy = tf.distribute.MirroredStrategy(["cpu:0"])
    model._symbolic_build = lambda data_batch: built_from.append(data_batch)
    model._maybe_symbolic_build(data_batch=tf.constant(["a", "b"]))
    assert [each.numpy().tolist() for each in built_from] == [[b"a", b"b"]]


# -- Keras: optimizers


class Optimizer(undocumented.ReplicaOptimizer):
    """Gradient descent, which `alone` says is on one replica."""

    alone = True

    def _apply_on_replicas(self, gradients, variables):
        self.got = len(gradients), len(variables)
        return not self.alone

    def update_step(self, gradient, variable, learning_rate):
        self.assign_sub(variable, learning_rate * gradient)


@stands_on("ReplicaOptimizer", "keras.optimizers.Optimizer._backend_apply_gradients")
def test_replica_optimizer_applies():
    variable, optimizer = keras.Variable([1.0]), Optimizer(learning_rate=1.0)
    for alone, value in ((False, 1), (True, 0)):
        optimizer.alone = alone
        optimizer.apply([tf.constant([1.0])], [variable])
        assert optimizer.got == (1, 1)
        assert float(variable[0]) == value
    assert int(optimizer.iterations) == 2


@stands_on("ReplicaOptimizer", "keras.optimizers.Optimizer._all_reduce_sum_gradients")
def test_replica_optimizer_keeps_no_graph():
    def graph_of_step(optimizer):
        variable = keras.Variable([1.0])
        optimizer.build([variable])
        step = tf.function(lambda: optimizer.apply([tf.constant([1.0])], [variable]), autograph=False)
        return weakref.ref(step.get_concrete_function().graph)

    kept, freed = graph_of_step(keras.optimizers.SGD()), graph_of_step(Optimizer(learning_rate=1.0))
    gc.collect()
    assert freed() is None
    assert kept() is not None, "Keras's optimizers free their graphs: the override can go"


@stands_on("variable_index", "keras.optimizers.Optimizer._get_variable_index")
def test_variable_index():
    variables, optimizer = [keras.Variable([1.0]) for _ in range(3)], AdamW()
    optimizer.build(variables)
    assert [undocumented.variable_index(optimizer, each) for each in variables] == [0, 1, 2]
    assert [undocumented.variable_index(optimizer, each.value) for each in variables] == [0, 1, 2]


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ({}, [[3.0, -4.0], [0.0, 12.0]]),
        ({"clipvalue": 2.0}, [[2.0, -2.0], [0.0, 2.0]]),
        ({"clipnorm": 1.0}, [[0.6, -0.8], [0.0, 1.0]]),
        ({"global_clipnorm": 6.5}, [[1.5, -2.0], [0.0, 6.0]]),
    ],
)
@stands_on("clip_gradients", "keras.optimizers.Optimizer._clip_gradients")
def test_clip_gradients(argument, expected):
    gradients = [tf.constant([3.0, -4.0]), tf.constant([0.0, 12.0])]
    got = undocumented.clip_gradients(AdamW(**argument), gradients)
    np.testing.assert_allclose(got, expected, rtol=1e-5)


@stands_on("clip_gradients", "keras.optimizers.Optimizer._clip_gradients")
def test_lookups_of_one_row_are_summed_before_their_norm():
    lookups = tf.IndexedSlices(tf.constant([[3.0], [3.0]]), tf.constant([1, 1]), tf.constant([4, 1]))
    clipped = undocumented.clip_gradients(AdamW(global_clipnorm=1.0), [lookups, tf.constant([8.0])])
    np.testing.assert_allclose(tf.convert_to_tensor(clipped[0])[:, 0], [0, 0.6, 0, 0], rtol=1e-5)
    np.testing.assert_allclose(clipped[1], [0.8], rtol=1e-5)


@pytest.mark.parametrize("damage", [np.nan, np.inf])
@stands_on("clip_gradients", "keras.optimizers.Optimizer._clip_gradients")
def test_a_gradient_that_is_not_finite_is_not_hidden_by_clipping(damage):
    gradients = [tf.constant([1.0, 2.0]), tf.constant([damage])]
    assert np.isnan(undocumented.clip_gradients(AdamW(global_clipnorm=1.0), gradients)[0]).all()


@stands_on("batches_seen", "keras.optimizers.Optimizer._iterations")
def test_batches_seen():
    variable, optimizer = keras.Variable([1.0]), AdamW(gradient_accumulation_steps=2)
    for batches in range(4):
        optimizer.build([variable])
        assert int(undocumented.batches_seen(optimizer).value) == batches
        assert int(optimizer.iterations) == batches // 2
        optimizer.apply([tf.constant([1.0])], [variable])


@stands_on("accumulated_gradient", "keras.optimizers.Optimizer._accumulated_gradients")
def test_accumulated_gradient():
    variables = [keras.Variable([1.0]), keras.Variable([1.0])]
    optimizer = AdamW(gradient_accumulation_steps=3)
    seen = []
    for number in (1.0, 2.0, 4.0):
        optimizer.apply([tf.constant([number]), tf.constant([-number])], variables)
        seen.append([float(undocumented.accumulated_gradient(optimizer, each).value[0]) for each in variables])
    assert seen == [[1, -1], [3, -3], [0, 0]]


# -- TensorFlow: graphs and SavedModels


@stands_on("is_in_xla", "tf.__internal__.get_enclosing_xla_context")
def test_is_in_xla():
    for xla in (False, True):
        seen = []
        function = tf.function(lambda x: [seen.append(undocumented.is_in_xla()), x][1], jit_compile=xla)  # noqa: B023
        function(tf.constant(1.0))
        assert seen == [xla]
    assert undocumented.is_in_xla() is False


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="oneDNN is in TensorFlow for x86")
@stands_on("add_private_operation", "tf.Graph.create_op for an operation of keras_bert.inference.onednn.OPERATIONS")
def test_add_private_operation():
    def every_operation(x):
        kernel, bias = tf.eye(4), tf.zeros(4)
        heads = x[None, None]
        quantized = onednn.QuantizedKernel(np.eye(4, dtype=np.float32))
        return (
            onednn.dense(x, kernel, bias, "relu"),
            onednn.scores(heads, heads, tf.zeros([1, 1, 1, 1])),
            onednn.silu(x),
            onednn.layer_norm(x, tf.ones(4), bias, 1e-5),
            onednn.quantized_dense(onednn.quantize(x, 1.0), 1.0, quantized, bias),
        )

    function = tf.function(every_operation, autograph=False)
    graph = function.get_concrete_function(tf.TensorSpec([2, 4])).graph
    assert set(onednn.OPERATIONS) <= {each.type for each in graph.get_operations()}
    names = [each.name for each in graph.get_operations()]
    assert "MklSwish" in names  # names are part of exported files
    number = tf.constant([[0.5]])  # captured
    silu = tf.function(lambda: undocumented.add_private_operation("_MklSwish", [number], [tf.float32], T=tf.float32))
    (result,) = silu()
    np.testing.assert_allclose(result, tf.nn.silu(number), rtol=1e-5)


@stands_on("load_with_variables", "tf.__internal__.saved_model.load_partial")
def test_load_with_variables(tmp_path):
    module = tf.Module()
    module.scale = tf.Variable(2.0)
    module.__call__ = tf.function(lambda x: x * module.scale, input_signature=[tf.TensorSpec([])])
    module.variables_in_order = [module.scale]
    tf.saved_model.save(module, str(tmp_path))
    variable = tf.Variable(5.0)
    root = undocumented.load_with_variables(str(tmp_path), {"root.variables_in_order.0": variable})
    assert root.variables_in_order[0] is variable
    variable.assign(7.0)
    assert float(root(tf.constant(3.0))) == 21


@stands_on("captured", "tf.saved_model.experimental.TrackableResource")
def test_captured():
    words = keras.layers.StringLookup(vocabulary=["a", "b"])
    words.scale = tf.Variable(3, dtype=tf.int64)
    text = keras.Input((), dtype="string")
    model = keras.Model(text, words(text))
    scaled = tf.function(lambda texts: words.scale * model(texts), input_signature=[tf.TensorSpec([None], tf.string)])
    variable, table = undocumented.captured(scaled.get_concrete_function(), model)
    assert variable is words.scale
    np.testing.assert_array_equal(table.lookup(tf.constant(["b", "c"])), [2, 0])


@stands_on("share_memory", "tf.experimental.dlpack.from_dlpack")
def test_share_memory():
    memory = np.zeros(128, np.float32)
    first = -memory.ctypes.data // 4 % 16  # of 64 bytes
    values = memory[first : first + 16]
    tensor = undocumented.share_memory(values)
    values[3] = 5
    assert tensor.numpy()[3] == 5
    assert (tensor.dtype, tensor.shape) == (tf.float32, [16])


@stands_on("litert_schema", "tensorflow.lite.python.schema_py_generated")
def test_litert_schema():
    entry, buffer = undocumented.litert_schema().MetadataT(), undocumented.litert_schema().BufferT()
    assert {"name", "buffer"} <= vars(entry).keys()
    assert "data" in vars(buffer)


@stands_on("litert_files", "tensorflow.lite.tools.flatbuffer_utils")
def test_litert_files(tmp_path):
    path = tmp_path / "model.tflite"
    function = tf.function(lambda x: {"y": x + 1}, input_signature=[tf.TensorSpec([2], name="x")])
    tf.saved_model.save(tf.Module(), str(tmp_path), signatures=function)
    path.write_bytes(tf.lite.TFLiteConverter.from_saved_model(str(tmp_path)).convert())
    model = undocumented.litert_files().read_model(str(path))
    model.buffers.append(undocumented.litert_schema().BufferT())
    path.write_bytes(undocumented.litert_files().convert_object_to_bytearray(model))
    assert len(undocumented.litert_files().read_model(str(path)).buffers) == len(model.buffers)
    assert model.signatureDefs[0].inputs[0].name == b"x"
    assert model.subgraphs[0].inputs.tolist() == [model.signatureDefs[0].inputs[0].tensorIndex]


@stands_on("sentencepiece_operations", "tensorflow_text.python.ops.sentencepiece_tokenizer.gen_sentencepiece_tokenizer")
def test_sentencepiece_operations():
    operations = undocumented.sentencepiece_operations()
    arguments = {
        name: list(inspect.signature(getattr(operations, name)).parameters)
        for name in ("sentencepiece_op", "sentencepiece_vocab_size_op", "sentencepiece_tokenize_with_offsets_op")
    }
    assert "model" in arguments["sentencepiece_op"]
    assert arguments["sentencepiece_vocab_size_op"][0] == "sp_handle"
    assert arguments["sentencepiece_tokenize_with_offsets_op"][:8] == [
        *("sp_handle", "input", "nbest_size", "alpha", "add_bos", "add_eos", "reverse", "out_type"),
    ]


# -- TensorFlow: experimental calls without another name


@stands_on("without_autograph", "tf.autograph.experimental.do_not_convert")
def test_without_autograph():
    def function(x):
        if x > 0:  # only autograph makes an operation of it
            return x
        return -x

    numbers = tf.data.Dataset.range(3)
    numbers.map(function)
    with pytest.raises(TypeError, match="symbolic"):
        numbers.map(undocumented.without_autograph(function))


@stands_on("epoch_datasets", "keras.src.trainers.data_adapters.data_adapter.DataAdapter")
def test_epoch_datasets():
    """Of one and of two batches."""
    inputs = keras.Input([1])
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse")
    counts, seen = iter((1, 2)), []

    def after_batch(batch, logs):
        seen.append(batch)
        model.stop_training = len(seen) in (1, 3)

    def after_epoch(epoch, logs):
        model.stop_training = False

    rows = tf.data.Dataset.from_tensors((tf.ones([2, 1]), tf.ones([2, 1])))
    watch = keras.callbacks.LambdaCallback(on_train_batch_end=after_batch, on_epoch_end=after_epoch)
    x = undocumented.epoch_datasets(model, lambda: rows.repeat(next(counts)))
    model.fit(x, epochs=2, verbose=0, shuffle=False, callbacks=[watch])
    assert seen == [0, 0, 1]


@stands_on("with_cardinality", "tf.data.experimental.assert_cardinality")
def test_with_cardinality():
    numbers = tf.data.Dataset.from_generator(lambda: iter(range(3)), output_signature=tf.TensorSpec([], tf.int32))
    assert int(numbers.cardinality()) < 0
    assert int(undocumented.with_cardinality(numbers, 3).cardinality()) == 3


@stands_on("shuffle_by_seed", "tf.random.experimental.stateless_shuffle")
def test_shuffle_by_seed():
    # The order of the records of an interrupted run: it must stay the same.
    assert undocumented.shuffle_by_seed(tf.range(8), [1, 2]).numpy().tolist() == [4, 2, 1, 7, 3, 6, 0, 5]


@stands_on("split_rows_between_workers", "tf.data.Options.experimental_distribute")
def test_split_rows_between_workers():
    options = tf.data.Options()
    undocumented.split_rows_between_workers(options)
    assert options.experimental_distribute.auto_shard_policy is tf.data.experimental.AutoShardPolicy.DATA


@stands_on("local_results", "tf.distribute.Strategy.experimental_local_results")
def test_local_results():
    strategy = tf.distribute.MirroredStrategy(["cpu:0"])
    (number,) = undocumented.local_results(strategy, strategy.run(lambda: tf.constant(5)))
    assert int(number) == 5
    assert undocumented.local_results(tf.distribute.get_strategy(), "text") == ("text",)


@stands_on("connect_to_tpu", "tf.tpu.experimental.initialize_tpu_system")
def test_connect_to_tpu(monkeypatch):
    called = []
    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", lambda resolver: called.append(resolver))
    monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", lambda resolver: called.append(resolver))
    undocumented.connect_to_tpu("resolver")
    assert called == ["resolver"] * 2
