"""Random frozen TensorFlow graphs for oracle.py: written field by field, computed by numpy.

Nothing of TensorFlow is needed: a graph is a message GraphDef (node = 1) of NodeDef (name = 1,
op = 2, input = 3, attr = 5). Images have their maps last.
"""

import struct

import numpy as np

FLOAT, INT32 = 1, 3


def varint(value):
    out = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def block(field, content):
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def shape(dims):
    return b"".join(block(2, number(1, dim)) for dim in dims)


def value(own):
    """An AttrValue by the kind of what it holds."""
    if isinstance(own, np.ndarray):
        dtype = FLOAT if own.dtype == np.float32 else INT32
        return block(8, number(1, dtype) + block(2, shape(own.shape)) + block(4, own.tobytes()))
    if isinstance(own, tuple):
        return block(7, shape(own))
    if isinstance(own, list):
        return block(1, block(3, b"".join(varint(item) for item in own)))
    if isinstance(own, bool):
        return number(5, int(own))
    if isinstance(own, float):
        return varint(4 << 3 | 5) + struct.pack("<f", own)
    if isinstance(own, str):
        return block(2, own)
    return number(6, own)


class Graph:
    """A graph and the value that numpy has for its last node."""

    def __init__(self, rng, x):
        self.rng, self.x, self.last, self.count, self.nodes = rng, x, "x", 0, []
        self.node("Placeholder", "x", [], dtype=FLOAT, shape=x.shape)

    def node(self, op, name, inputs, **attributes):
        entries = [block(1, key) + block(2, value(own)) for key, own in attributes.items()]
        parts = [block(1, name), block(2, op), *(block(3, own) for own in inputs)]
        self.nodes.append(block(1, b"".join(parts + [block(5, own) for own in entries])))

    def constant(self, array):
        self.count += 1
        dtype = FLOAT if array.dtype == np.float32 else INT32
        self.node("Const", f"c{self.count}", [], dtype=dtype, value=array)
        return f"c{self.count}"

    def then(self, op, x, *others, **attributes):
        self.count += 1
        name = f"n{self.count}"
        self.node(op, name, [self.last, *others], **attributes)
        self.last, self.x = name, x.astype(np.float32)

    def noise(self, *dims):
        return self.rng.uniform(-1, 1, dims).astype(np.float32)


def padded(x, kernel, stride, dilation, padding, filler):
    """The image with what `padding` adds, and the number of places each way."""
    pads, places = [(0, 0)], []
    for length, own in zip(x.shape[1:3], kernel):
        reach = (own - 1) * dilation + 1
        if padding == "SAME":
            count = -(-length // stride)
            missing = max((count - 1) * stride + reach - length, 0)
        else:
            count, missing = (length - reach) // stride + 1, 0
        pads.append((missing // 2, missing - missing // 2))
        places.append(count)
    return np.pad(x, [*pads, (0, 0)], constant_values=filler), places


def taps(x, kernel, stride, dilation, padding, filler=0.0):
    """For each tap of a window the elements that it sees at all places."""
    whole, (rows, columns) = padded(x, kernel, stride, dilation, padding, filler)
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            y, z = i * dilation, j * dilation
            rest = whole[:, y : y + rows * stride : stride, z : z + columns * stride : stride]
            yield i, j, rest[:, :rows, :columns]


def window(graph):
    """A window that fits the image, and its attributes."""
    rng, (height, width) = graph.rng, graph.x.shape[1:3]
    padding = str(rng.choice(["SAME", "VALID"]))
    kernel = [int(rng.integers(1, min(3, height) + 1)), int(rng.integers(1, min(3, width) + 1))]
    stride = int(rng.integers(1, 3))
    return kernel, stride, padding, dict(strides=[1, stride, stride, 1], padding=padding)


def conv(graph):
    kernel, stride, padding, attributes = window(graph)
    room = all((own - 1) * 2 < dim for own, dim in zip(kernel, graph.x.shape[1:3]))
    dilation = 2 if stride == 1 and room and graph.rng.random() < 0.3 else 1
    attributes["dilations"] = [1, dilation, dilation, 1]
    x, maps = graph.x.astype(np.float64), graph.x.shape[3]
    seen = taps(x, kernel, stride, dilation, padding)
    if graph.rng.random() < 0.3:
        times = int(graph.rng.integers(1, 3))
        w = graph.noise(*kernel, maps, times)
        each = (rest[..., None] * w[i, j] for i, j, rest in seen)
        y = sum(each)
        y = y.reshape(*y.shape[:3], maps * times)
        graph.then("DepthwiseConv2dNative", y, graph.constant(w), **attributes)
    else:
        w = graph.noise(*kernel, maps, int(graph.rng.choice([3, 8, 16, 20])))
        y = sum(rest @ w[i, j].astype(np.float64) for i, j, rest in seen)
        graph.then("Conv2D", y, graph.constant(w), **attributes)


def bias(graph):
    b = graph.noise(graph.x.shape[-1])
    graph.then("BiasAdd", graph.x + b, graph.constant(b), data_format="NHWC")


def norm(graph):
    maps = graph.x.shape[-1]
    scale, offset, mean = graph.noise(maps), graph.noise(maps), graph.noise(maps)
    variance = np.abs(graph.noise(maps)) + np.float32(0.5)
    y = (graph.x - mean) / np.sqrt(variance + 0.01) * scale + offset
    others = [graph.constant(own) for own in (scale, offset, mean, variance)]
    graph.then("FusedBatchNormV3", y, *others, epsilon=0.01, is_training=False)


def function(graph):
    x = graph.x
    op, y = [
        ("Relu", np.maximum(x, 0)),
        ("Relu6", np.clip(x, 0, 6)),
        ("Sigmoid", 1 / (1 + np.exp(-x))),
        ("Tanh", np.tanh(x)),
        ("LeakyRelu", np.where(x < 0, x * np.float32(0.2), x)),
    ][graph.rng.integers(5)]
    graph.then(op, y, T=FLOAT)


def pool(graph):
    kernel, stride, padding, attributes = window(graph)
    attributes["ksize"] = [1, *kernel, 1]
    if graph.rng.random() < 0.5:
        seen = taps(graph.x, kernel, stride, 1, padding, -np.inf)
        graph.then("MaxPool", np.max([rest for *_, rest in seen], axis=0), **attributes)
        return
    total = sum(rest for *_, rest in taps(graph.x, kernel, stride, 1, padding))
    count = sum(rest for *_, rest in taps(np.ones_like(graph.x), kernel, stride, 1, padding))
    graph.then("AvgPool", total / count, **attributes)


def pads(graph):
    own = graph.rng.integers(0, 2, (4, 2)).astype(np.int32)
    own[[0, 3]] = 0
    graph.then("Pad", np.pad(graph.x, own), graph.constant(own))


def pair(graph):
    op, dims = str(graph.rng.choice(["AddV2", "Sub", "Mul"])), graph.x.shape
    other = graph.noise(*[dims, dims[-1:], dims[1:], ()][graph.rng.integers(4)])
    other = np.asarray(other, np.float32)
    y = {"AddV2": np.add, "Sub": np.subtract, "Mul": np.multiply}[op](graph.x, other)
    graph.then(op, y, graph.constant(other))


def joined(graph):
    first, x = graph.last, graph.x
    function(graph)
    y = np.concatenate([graph.x, x], axis=3)
    graph.then("ConcatV2", y, first, graph.constant(np.asarray(-1, np.int32)))


def finish(graph):
    batch, maps = graph.x.shape[0], graph.x.shape[3]
    if graph.rng.random() < 0.5:
        axes = graph.constant(np.asarray([1, 2], np.int32))
        graph.then("Mean", graph.x.mean(axis=(1, 2)), axes, keep_dims=False)
    else:
        to = graph.constant(np.asarray([batch, -1], np.int32))
        graph.then("Reshape", graph.x.reshape(batch, -1), to)
        maps = graph.x.shape[1]
    w = graph.noise(maps, 5) / np.float32(maps)
    turned = bool(graph.rng.random() < 0.5)
    own = np.ascontiguousarray(w.T) if turned else w
    graph.then("MatMul", graph.x @ w, graph.constant(own), transpose_b=turned)
    powers = np.exp(graph.x - graph.x.max(axis=-1, keepdims=True))
    graph.then("Softmax", powers / powers.sum(axis=-1, keepdims=True))


def random_graph(number):
    """A graph as bytes, its input and its output."""
    rng = np.random.default_rng(number)
    dims = (int(rng.integers(1, 3)), *(int(own) for own in rng.integers(5, 10, 2)), 3)
    x = rng.uniform(-1, 1, dims).astype(np.float32)
    graph = Graph(rng, x)
    for _ in range(int(rng.integers(2, 8))):
        step = [conv, conv, bias, norm, function, function, pool, pads, pair, joined]
        step[rng.integers(len(step))](graph)
    if rng.random() < 0.7:
        finish(graph)
    if graph.last == "x":
        function(graph)
    return b"".join(graph.nodes), {"x": x}, [np.ascontiguousarray(graph.x)]
