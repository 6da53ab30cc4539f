"""Models of halves for oracle.py: a model of float32 as one of float16 or bfloat16, and models that
are made for it.

What is expected is the model of float32 with weights and inputs of the half's values, by
onnxruntime, rounded to the half: nothing in between is rounded by the compiler, so that results may
differ by one neighbour and what float32 itself differs by. Where onnxruntime has the model of
float16 too (it computes most of it as float32, and rounds between), that is compared, with what
rounding each node's result can make of it.
"""

import ml_dtypes
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, version_converter

NUMPY = {TensorProto.FLOAT16: np.float16, TensorProto.BFLOAT16: ml_dtypes.bfloat16}
NAMES = {TensorProto.FLOAT16: "float16", TensorProto.BFLOAT16: "bfloat16"}
# A neighbour of a half of 1, and what float32 differs by.
NEIGHBOUR = {TensorProto.FLOAT16: 2.0**-10 + 1e-4, TensorProto.BFLOAT16: 2.0**-7 + 1e-4}
# Inputs that are float32 in models of halves, too; statistics where they are beyond float16.
FLOATS = {"Resize": [2], "Upsample": [1]}
STATISTICS = {"BatchNormalization": [3, 4]}


def rounded(model, kind):
    """The model with weights of the half's values, still of float32."""
    model = type(model).FromString(model.SerializeToString())
    for tensor in floats_of(model):
        value = half(tensor, kind).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    return model


def beyond(model):
    """Statistics that a half can't hold."""
    values = {tensor.name: tensor for tensor in model.graph.initializer}
    values |= {node.output[0]: node.attribute[0].t for node in model.graph.node
               if node.op_type == "Constant" and node.attribute[0].name == "value"}
    names = {node.input[index] for node in model.graph.node
             for index in STATISTICS.get(node.op_type, [])}
    return {name for name in names if np.abs(numpy_helper.to_array(values[name])).max() > 65504}


def half(tensor, kind):
    return numpy_helper.to_array(tensor).astype(NUMPY[kind])


def floats_of(model):
    """Constants that become halves."""
    kept = {node.input[index] for node in model.graph.node
            for index in FLOATS.get(node.op_type, []) if index < len(node.input)}
    kept |= beyond(model)
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and tensor.name not in kept:
            yield tensor
    for node in model.graph.node:
        for attribute in node.attribute:
            of_float = attribute.t.data_type == TensorProto.FLOAT
            if attribute.name == "value" and of_float and node.output[0] not in kept:
                yield attribute.t


def halved(model, kind):
    """The model with halves wherever it has float32."""
    model = type(model).FromString(model.SerializeToString())
    for tensor in list(floats_of(model)):
        value = half(tensor, kind)
        own = helper.make_tensor(tensor.name, kind, value.shape, value.tobytes(), raw=True)
        tensor.CopyFrom(own)
    graph = model.graph
    for info in [*graph.input, *graph.output, *graph.value_info]:
        if info.type.tensor_type.elem_type == TensorProto.FLOAT:
            info.type.tensor_type.elem_type = kind
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                attribute.i = kind
    return model


def by_float32(cases, name, model, kind, inputs, also=None):
    """A model of float32 as one of halves."""
    halves = {key: x.astype(NUMPY[kind]) if x.dtype == np.float32 else x
              for key, x in inputs.items()}
    floats = {key: x.astype(np.float32) if x.dtype == NUMPY[kind] else x
              for key, x in halves.items()}
    reference = rounded(model, kind).SerializeToString()
    session = onnxruntime.InferenceSession(reference, providers=["CPUExecutionProvider"])
    expected = [y.astype(NUMPY[kind]) if y.dtype == np.float32 else y
                for y in session.run(None, floats)]
    assert all(y.astype(np.float32).std() > 1e-3 for y in expected), f"{name} says nothing"
    own = halved(model, kind).SerializeToString()
    cases.write(f"{NAMES[kind]} {name}", own, NEIGHBOUR[kind], halves, expected)
    if kind == TensorProto.FLOAT16 and also is not None:
        cases.by_onnxruntime(f"float16 {name} by onnxruntime", own, also, halves)


class Graph:
    """Nodes on constants of a seed."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants, self.inputs, self.outputs = [], [], {}, []

    def input(self, name, dims, low=-1.0, high=1.0):
        self.inputs[name] = self.rng.uniform(low, high, dims).astype(np.float32)
        return name

    def weight(self, *dims, low=-1.0, high=1.0):
        depth = int(np.prod(dims[1:])) if len(dims) > 1 else 1
        value = self.rng.uniform(low, high, dims) / np.sqrt(max(depth, 1) / 3)
        return self.constant(value.astype(np.float32))

    def constant(self, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def node(self, op, *inputs, outputs=1, **attributes):
        made = [f"t{len(self.nodes)}.{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), made, **attributes))
        return made[0] if outputs == 1 else made

    def model(self, opset, *outputs):
        info = helper.make_tensor_value_info
        kinds = {np.dtype("float32"): TensorProto.FLOAT, np.dtype("int64"): TensorProto.INT64}
        declared = [info(key, kinds[x.dtype], x.shape) for key, x in self.inputs.items()]
        made = [info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "g", declared, made, self.constants)
        opsets = [helper.make_opsetid("", opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def convolutions(opset):
    g = Graph(1)
    x = g.input("x", (2, 3, 20, 24))
    pads = dict(pads=[1, 1, 1, 1])
    x = g.node("Conv", x, g.weight(16, 3, 3, 3), g.weight(16), **pads)
    statistics = [g.weight(16, low=0.5), g.weight(16), g.weight(16), g.weight(16, low=0.2)]
    x = g.node("BatchNormalization", x, *statistics)
    x = g.node("Relu", x)
    x = g.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    y = g.node("Conv", x, g.weight(16, 1, 3, 3), group=16, **pads)
    y = g.node("Mul", y, g.node("Sigmoid", y))
    x = g.node("Add", x, g.node("HardSwish", y))
    x = g.node("Conv", x, g.weight(32, 16, 3, 3), strides=[2, 2], **pads)
    x = g.node("Clip", x, g.constant(np.float32(-0.5)), g.constant(np.float32(6)))
    x = g.node("Flatten", g.node("GlobalAveragePool", x))
    x = g.node("Gemm", x, g.weight(10, 32), g.weight(10), transB=1)
    return g.model(opset, g.node("Softmax", x, axis=-1), x), g.inputs


def transformer(opset):
    g, heads, width, words = Graph(2), 4, 8, 12
    size = heads * width
    g.inputs["ids"] = g.rng.integers(0, 50, (2, words))
    x = g.node("Gather", g.weight(50, size), "ids")
    x = g.node("Add", x, g.weight(1, words, size))
    mask = np.triu(np.full((words, words), -1e4, np.float32), 1)

    def dense(x, out, depth):
        return g.node("Add", g.node("MatMul", x, g.weight(out, depth)), g.weight(depth))

    def normal(x):
        scale, shift = g.weight(size, low=0.5), g.weight(size)
        return g.node("LayerNormalization", x, scale, shift, axis=-1)

    for _ in range(2):
        own = normal(x)
        split = g.constant(np.array([0, 0, heads, width]))
        parts = [g.node("Reshape", dense(own, size, size), split) for _ in range(3)]
        q, v = [g.node("Transpose", parts[index], perm=[0, 2, 1, 3]) for index in (0, 2)]
        k = g.node("Transpose", parts[1], perm=[0, 2, 3, 1])
        scores = g.node("Div", g.node("MatMul", q, k), g.constant(np.float32(np.sqrt(width))))
        shares = g.node("Softmax", g.node("Add", scores, g.constant(mask)), axis=-1)
        own = g.node("Transpose", g.node("MatMul", shares, v), perm=[0, 2, 1, 3])
        own = g.node("Reshape", own, g.constant(np.array([0, 0, size])))
        x = g.node("Add", x, dense(own, size, size))
        own = dense(normal(x), size, 4 * size)
        erf = g.node("Erf", g.node("Div", own, g.constant(np.float32(np.sqrt(2)))))
        erf = g.node("Add", erf, g.constant(np.float32(1)))
        own = g.node("Mul", g.node("Mul", own, erf), g.constant(np.float32(0.5)))
        x = g.node("Add", x, dense(own, 4 * size, size))
    return g.model(opset, normal(x)), g.inputs


def recurrent(opset):
    g, hidden = Graph(3), 6
    x = g.input("x", (7, 2, 5))
    y, last, cell = g.node("LSTM", x, g.weight(2, 4 * hidden, 5), g.weight(2, 4 * hidden, hidden),
                           g.weight(2, 8 * hidden), outputs=3, hidden_size=hidden,
                           direction="bidirectional")
    y = g.node("Transpose", y, perm=[0, 2, 1, 3])
    y = g.node("Reshape", y, g.constant(np.array([0, 0, -1])))
    y, _ = g.node("GRU", y, g.weight(1, 3 * hidden, 2 * hidden), g.weight(1, 3 * hidden, hidden),
                  outputs=2, hidden_size=hidden)
    y = g.node("Squeeze", y, g.constant(np.array([1])))
    return g.model(opset, g.node("Tanh", y), last, cell), g.inputs


def up_and_down(opset):
    g, pads = Graph(4), dict(pads=[1, 1, 1, 1])
    x = g.input("x", (1, 3, 16, 16))
    above = g.node("Relu", g.node("Conv", x, g.weight(16, 3, 3, 3), g.weight(16), **pads))
    x = g.node("AveragePool", above, kernel_shape=[2, 2], strides=[2, 2])
    x = g.node("InstanceNormalization", x, g.weight(16, low=0.5), g.weight(16))
    x = g.node("LeakyRelu", g.node("Conv", x, g.weight(24, 16, 3, 3), **pads))
    times = g.constant(np.array([1, 1, 2, 2], np.float32))
    near = g.node("Resize", x, "", times, mode="nearest",
                  coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    even = g.node("Resize", x, "", times, mode="linear")
    wide = g.node("ConvTranspose", x, g.weight(24, 8, 2, 2), strides=[2, 2])
    x = g.node("Concat", above, near, even, wide, axis=1)
    first, second = g.node("Split", x, g.constant(np.array([40, 32])), axis=1, outputs=2)
    x = g.node("Pad", second, g.constant(np.array([0, 0, 0, 0, 0, 8, 0, 0])))
    x = g.node("Sub", x, g.node("PRelu", first, g.weight(40, 1, 1)))
    x = g.node("Conv", x, g.weight(5, 40, 1, 1))
    mean = g.node("ReduceMean", x, g.constant(np.array([2, 3])), keepdims=1)
    far = g.node("Greater", x, mean)
    x = g.node("Where", far, x, g.node("Exp", g.node("Neg", mean)))
    return g.model(opset, x, above), g.inputs


# Models, and the difference to onnxruntime's own float16, which rounds each node's result: half a
# neighbour of 2^-11 a node on the longest way, of results of about 1.
MADE = {"convolutions": (convolutions, 14), "transformer": (transformer, 40),
        "recurrent": (recurrent, 8), "up and down": (up_and_down, 14)}


def made(cases):
    for name, (build, depth) in MADE.items():
        model, inputs = build(18)
        by_float32(cases, name, model, TensorProto.FLOAT16, inputs, depth * 2.0**-11)
        model, inputs = build(22)
        by_float32(cases, name, model, TensorProto.BFLOAT16, inputs)


def whole(cases, name, model, inputs):
    """A model of float32 that is there. Its results are probabilities, which the roundings of
    onnxruntime's float16 change by less than sixteen of them."""
    # The opset from which on convolutions have bfloat16, and statistics have types of their own.
    newer = version_converter.convert_version(model, 22)
    by_onnxruntime = None if beyond(model) else 2.0**-7
    own = newer if beyond(model) else model
    by_float32(cases, name, own, TensorProto.FLOAT16, inputs, by_onnxruntime)
    by_float32(cases, name, newer, TensorProto.BFLOAT16, inputs)
