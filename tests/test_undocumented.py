"""Functions of `keras_bert.undocumented` by themselves: after a release of Keras, a failure tells what has changed.

Those that read weights and run SavedModels are tested where they are used.
"""

import gc
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

# -- Keras: layers and variables


class Outer(keras.layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inner = keras.Sequential([keras.layers.Dense(2, name="first")])
        self.others = [keras.layers.Dense(2, name="second")]


def test_flatten_layers():
    outer = Outer(name="outer")
    names = [layer.name for layer in undocumented.flatten_layers(outer)]
    assert sorted(names) == sorted(["outer", outer.inner.name, "first", "second"])
    assert {layer.name for layer in undocumented.sublayers(outer)} == {outer.inner.name, "second"}


# -- Keras: masks, LoRA of dense layers, and seeds


def test_masks():
    words = keras.ops.array([[3, 0]])
    mask = undocumented.get_mask(keras.layers.Embedding(4, 2, mask_zero=True)(words))
    assert np.array(mask).tolist() == [[True, False]]
    assert undocumented.get_mask(words) is None
    undocumented.set_mask(words, mask)
    assert np.array(undocumented.get_mask(words)).tolist() == [[True, False]]


def test_lora():
    dense = keras.layers.Dense(3, use_bias=False)
    dense.build((None, 2))
    before = keras.ops.convert_to_numpy(dense.kernel)
    dense.enable_lora(rank=2, lora_alpha=6)
    dense.lora_kernel_b.assign(np.ones([2, 3]))
    change = 3 * keras.ops.convert_to_numpy(dense.lora_kernel_a) @ np.ones([2, 3], np.float32)
    assert undocumented.has_lora(dense)
    assert not undocumented.has_lora(keras.layers.Dense(3))
    assert not undocumented.has_lora(keras.layers.Dropout(0.1))
    np.testing.assert_allclose(undocumented.lora_change(dense), change, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dense.kernel, before + change, rtol=1e-5, atol=1e-6)
    undocumented.merge_lora(dense)
    assert not undocumented.has_lora(dense)
    assert [each is dense.kernel for each in dense.weights] == [True]
    np.testing.assert_allclose(dense.kernel, before + change, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dense(np.eye(2)), before + change, rtol=1e-5, atol=1e-6)


def test_seed_states():
    model = keras.Sequential([keras.Input([2]), keras.layers.Dropout(0.1), keras.layers.GaussianNoise(1.0)])
    states = undocumented.seed_states(model)
    expected = [layer.seed_generator.state for layer in model.layers]
    assert {id(each) for each in states} == {id(each) for each in expected}


def test_seed_after():
    seeds = keras.random.SeedGenerator(7)
    first = tf.identity(seeds.state.value)
    for draws in range(3):
        assert seeds.state.numpy().tolist() == undocumented.seed_after(first, draws).numpy().tolist()
        seeds.next()


# -- Keras: models and losses


def test_set_xla():
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    model.layers[0].supports_jit = False
    model.jit_compile = False
    undocumented.set_xla(model, True)
    assert model.jit_compile is True


def test_loss_tracker():
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile("sgd", "mse")
    assert model.test_on_batch(np.ones([3, 2]), np.zeros([3, 1])) == 4
    assert float(undocumented.loss_tracker(model).result()) == 4
    undocumented.replace_loss_tracker(model, metric := keras.metrics.Sum(name="loss"))
    assert [each is metric for each in model.metrics] == [True]
    assert model.evaluate(np.ones([3, 2]), np.zeros([3, 1]), batch_size=1, verbose=0) == 12
    assert undocumented.loss_tracker(model) is metric


def test_loss_from_function():
    loss = undocumented.loss_from_function(lambda y, z: keras.ops.mean(abs(y - z), axis=-1), "distance")
    assert isinstance(loss, keras.losses.Loss)
    assert (loss.name, loss.reduction) == ("distance", "sum_over_batch_size")
    assert float(loss(np.zeros(2), np.array([[1.0], [3.0]]))) == 2  # not [2, 2] of them


class Recording(undocumented.BuiltFromOneReplica, keras.Sequential):
    def _symbolic_build(self, iterator=None, data_batch=None):
        self.built_from = keras.tree.map_structure(lambda each: tuple(each.shape), data_batch)
        super()._symbolic_build(iterator, data_batch)


def test_built_from_one_replica():
    with tf.distribute.MirroredStrategy(["cpu:0"]).scope():
        model = Recording([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.fit(np.ones([4, 2]), np.zeros([4, 1]), batch_size=4, verbose=0)
    assert model.built_from == ((4, 2), (4, 1))
    assert model.layers[0].kernel.shape == (2, 1)


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


def test_replica_optimizer_applies():
    variable, optimizer = keras.Variable([1.0]), Optimizer(learning_rate=1.0)
    for alone, value in ((False, 1), (True, 0)):
        optimizer.alone = alone
        optimizer.apply([tf.constant([1.0])], [variable])
        assert optimizer.got == (1, 1)
        assert float(variable[0]) == value
    assert int(optimizer.iterations) == 2


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
def test_clip_gradients(argument, expected):
    gradients = [tf.constant([3.0, -4.0]), tf.constant([0.0, 12.0])]
    got = undocumented.clip_gradients(AdamW(**argument), gradients)
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_lookups_of_one_row_are_summed_before_their_norm():
    lookups = tf.IndexedSlices(tf.constant([[3.0], [3.0]]), tf.constant([1, 1]), tf.constant([4, 1]))
    clipped = undocumented.clip_gradients(AdamW(global_clipnorm=1.0), [lookups, tf.constant([8.0])])
    np.testing.assert_allclose(tf.convert_to_tensor(clipped[0])[:, 0], [0, 0.6, 0, 0], rtol=1e-5)
    np.testing.assert_allclose(clipped[1], [0.8], rtol=1e-5)


@pytest.mark.parametrize("damage", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_is_not_hidden_by_clipping(damage):
    gradients = [tf.constant([1.0, 2.0]), tf.constant([damage])]
    assert np.isnan(undocumented.clip_gradients(AdamW(global_clipnorm=1.0), gradients)[0]).all()


def test_accumulation():
    variables, seen = [keras.Variable([1.0]), keras.Variable([1.0])], []
    optimizer = AdamW(gradient_accumulation_steps=3)
    for batches, number in enumerate((1.0, 2.0, 4.0), start=1):
        optimizer.apply([tf.constant([number]), tf.constant([-number])], variables)
        seen.append([float(undocumented.accumulated_gradient(optimizer, each).value[0]) for each in variables])
        assert int(undocumented.batches_seen(optimizer).value) == batches
        assert int(optimizer.iterations) == batches // 3
    assert seen == [[1, -1], [3, -3], [0, 0]]


# -- TensorFlow: graphs and SavedModels


def test_is_in_xla():
    for xla in (False, True):
        seen = []
        function = tf.function(lambda x: [seen.append(undocumented.is_in_xla()), x][1], jit_compile=xla)  # noqa: B023
        function(tf.constant(1.0))
        assert seen == [xla]
    assert undocumented.is_in_xla() is False


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="oneDNN is in TensorFlow for x86")
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


def test_share_memory():
    memory = np.zeros(128, np.float32)
    first = -memory.ctypes.data // 4 % 16  # of 64 bytes
    values = memory[first : first + 16]
    tensor = undocumented.share_memory(values)
    values[3] = 5
    assert tensor.numpy()[3] == 5
    assert (tensor.dtype, tensor.shape) == (tf.float32, [16])


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


# -- TensorFlow: experimental calls without another name


def test_without_autograph():
    def function(x):
        if x > 0:  # only autograph makes an operation of it
            return x
        return -x

    numbers = tf.data.Dataset.range(3)
    numbers.map(function)
    with pytest.raises(TypeError, match="symbolic"):
        numbers.map(undocumented.without_autograph(function))


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


def test_with_cardinality():
    numbers = tf.data.Dataset.from_generator(lambda: iter(range(3)), output_signature=tf.TensorSpec([], tf.int32))
    assert int(numbers.cardinality()) < 0
    assert int(undocumented.with_cardinality(numbers, 3).cardinality()) == 3


def test_shuffle_by_seed():
    # The order of the records of an interrupted run: it must stay the same.
    assert undocumented.shuffle_by_seed(tf.range(8), [1, 2]).numpy().tolist() == [4, 2, 1, 7, 3, 6, 0, 5]


def test_split_rows_between_workers():
    options = tf.data.Options()
    undocumented.split_rows_between_workers(options)
    assert options.experimental_distribute.auto_shard_policy is tf.data.experimental.AutoShardPolicy.DATA


def test_local_results():
    strategy = tf.distribute.MirroredStrategy(["cpu:0"])
    (number,) = undocumented.local_results(strategy, strategy.run(lambda: tf.constant(5)))
    assert int(number) == 5
    assert undocumented.local_results(tf.distribute.get_strategy(), "text") == ("text",)


def test_connect_to_tpu(monkeypatch):
    called = []
    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", lambda resolver: called.append(resolver))
    monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", lambda resolver: called.append(resolver))
    undocumented.connect_to_tpu("resolver")
    assert called == ["resolver"] * 2
