"""The rival of figure-kernels: onnxruntime with all its optimisations, one thread, bound memory.

make FOLDER: writes the models that no package has (two MLPs, a small CNN), and prints the version.
run MODEL X SHAPE Y: answers blocks of runs; Y becomes the first result. A session lives throughout.
load MODEL X SHAPE: answers blocks of new sessions, each with its first result.

X and Y are the floats of the only input and output, SHAPE is 1x3x320x320. On `block N` at the input
a line `ns_per_hop X` follows, nanoseconds for one of the N; before the first, `ready`.
"""

import pathlib
import sys
import time

import numpy as np
import onnxruntime as ort

FLOAT, INT64 = 1, 7


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(0x80 | value & 0x7F)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    """A field of a protobuf message: a number, a text, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


class Net:
    """A model that is put together: nodes and constants of a GraphProto."""

    def __init__(self):
        self.graph, self.random = b"", np.random.default_rng(0)

    def constant(self, name, array):
        kind = INT64 if array.dtype == np.int64 else FLOAT
        dims = b"".join(field(1, dim) for dim in array.shape)
        tensor = dims + field(2, kind) + field(8, name) + field(9, array.tobytes())
        self.graph += field(5, tensor)
        return name

    def weights(self, name, shape):
        scale = np.sqrt(2 / max(np.prod(shape[1:]) if len(shape) == 4 else shape[0], 1))
        return self.constant(name, (self.random.standard_normal(shape) * scale).astype(np.float32))

    def node(self, op, inputs, output, **ints):
        """Attributes are a number (INT) or a list of them (INTS)."""
        node = b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, op)
        for name, value in ints.items():
            if isinstance(value, int):
                attribute = field(1, name) + field(3, value) + field(20, 2)
            else:
                each = b"".join(field(8, one) for one in value)
                attribute = field(1, name) + each + field(20, 7)
            node += field(5, attribute)
        self.graph += field(1, node)
        return output

    def dense(self, x, name, sizes, relu):
        product = self.node("MatMul", [x, self.weights(f"w{name}", sizes)], f"m{name}")
        y = self.node("Add", [product, self.weights(f"b{name}", sizes[1:])], f"a{name}")
        return self.node("Relu", [y], f"r{name}") if relu else y

    def conv(self, x, name, maps, seen, kernel, stride=1, group=1):
        w = self.weights(f"w{name}", (maps, seen, kernel, kernel))
        b = self.weights(f"b{name}", (maps,))
        pads = [kernel // 2] * 4
        y = self.node(
            "Conv", [x, w, b], f"c{name}", strides=[stride] * 2, pads=pads, group=group
        )
        return self.node("Relu", [y], f"r{name}")

    def write(self, path, shape, output, last):
        def value(name, dims):
            each = b"".join(field(1, field(1, dim)) for dim in dims)
            kind = field(1, FLOAT) + field(2, each)
            return field(1, name) + field(2, field(1, kind))

        graph = self.graph + field(2, "net")
        graph += field(11, value("x", shape)) + field(12, value(last, output))
        opset = field(2, 15)
        path.write_bytes(field(1, 8) + field(7, graph) + field(8, opset))


def make(folder):
    for batch in (1, 32):
        net, x = Net(), "x"
        for index, sizes in enumerate([(784, 256), (256, 128), (128, 10)]):
            x = net.dense(x, index, sizes, relu=index < 2)
        net.write(folder / f"mlp_b{batch}.onnx", (batch, 784), (batch, 10), x)
    net = Net()
    x = net.conv("x", 0, 32, 3, 3, stride=2)
    x = net.conv(x, 1, 32, 32, 3)
    x = net.conv(x, 2, 64, 32, 3, stride=2)
    x = net.conv(x, 3, 64, 1, 3, group=64)
    x = net.conv(x, 4, 128, 64, 1)
    x = net.node("GlobalAveragePool", [x], "mean")
    x = net.node("Reshape", [x, net.constant("flat", np.array([1, 128], np.int64))], "flatten")
    net.write(folder / "cnn.onnx", (1, 3, 64, 64), (1, 10), net.dense(x, 5, (128, 10), relu=False))


class Bound:
    """A session with memory for its input and output."""

    def __init__(self, model, x):
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        self.session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.binding = self.session.io_binding()
        # The binding does not keep what it is given alive.
        self.x = ort.OrtValue.ortvalue_from_numpy(x)
        self.binding.bind_ortvalue_input(self.session.get_inputs()[0].name, self.x)
        name = self.session.get_outputs()[0].name
        self.binding.bind_output(name)
        self.session.run_with_iobinding(self.binding)
        self.first = self.binding.copy_outputs_to_cpu()[0]
        self.y = ort.OrtValue.ortvalue_from_numpy(np.zeros_like(self.first))
        self.binding.clear_binding_outputs()
        self.binding.bind_ortvalue_output(name, self.y)

    def run(self, count):
        # What the wrapper of the package does, without the wrapper.
        run, binding = self.session._sess.run_with_iobinding, self.binding._iobinding
        run(binding, None)
        start = time.perf_counter_ns()
        for _ in range(count):
            run(binding, None)
        return time.perf_counter_ns() - start


def load(model, x, count):
    start = time.perf_counter_ns()
    for _ in range(count):
        Bound(model, x)
    return time.perf_counter_ns() - start


def serve(block):
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[:1] != ["block"]:
            return
        count = int(words[1])
        print(f"ns_per_hop {block(count) / count}", flush=True)


def main():
    if sys.argv[1] == "make":
        make(pathlib.Path(sys.argv[2]))
        print(ort.__version__)
        return
    kind, model, x, shape = sys.argv[1:5]
    x = np.fromfile(x, np.float32).reshape([int(dim) for dim in shape.split("x")])
    if kind == "load":
        serve(lambda count: load(model, x, count))
        return
    bound = Bound(model, x)
    bound.first.astype(np.float32).tofile(sys.argv[5])
    serve(bound.run)


main()
