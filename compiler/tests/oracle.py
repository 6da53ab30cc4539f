"""Makes models, inputs and expected outputs for oracle.rs: python oracle.py FOLDER [MODELS].

Six kinds of cases: the node cases that ONNX itself has for some ops of the table, random graphs
of those ops, attention as exporters of transformers write it, models of halves (halves.py), random
frozen graphs of TensorFlow (frozen.py), and whole models, also of halves: page orientation on noise
and on page-like images, OCR on noise and on a page.
Expected outputs are onnxruntime's, those of the node case, or numpy's. Without the package `onnx`
only frozen graphs and models are compared.
A line of FOLDER/cases.txt is a case: name, model, tolerance, inputs (name:type:dims:file), outputs
(type:dims:file), separated by tabs.
"""

import os
import pathlib
import random
import sys

import frozen
import numpy as np
import onnxruntime

try:
    import halves
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    onnx = None

OPS = (
    "Add BatchNormalization Concat Conv GlobalAveragePool HardSigmoid HardSwish Identity "
    "MatMul Mul Relu Reshape Shape Slice Softmax"
).split()
TYPES = {"float32": "f32", "int32": "i32", "int64": "i64", "float16": "f16", "bfloat16": "bf16"}
# Inputs whose values decide about shapes: initializers, as exporters write them.
SHAPE_INPUTS = {"Reshape": [1], "Slice": [1, 2, 3, 4]}


class Cases:
    def __init__(self, folder):
        self.folder = folder
        self.lines = []

    def write(self, name, model, tolerance, inputs, outputs):
        def dump(array, what):
            path = self.folder / f"{len(self.lines)}.{what}.bin"
            path.write_bytes(array.tobytes())
            dims = ",".join(str(dim) for dim in array.shape)
            return f"{TYPES[str(array.dtype)]}:{dims}:{path.name}"

        path = self.folder / f"{len(self.lines)}.onnx"
        path.write_bytes(model)
        inputs = [f"{key}:{dump(value, f'in{i}')}" for i, (key, value) in enumerate(inputs.items())]
        outputs = [dump(value, f"out{i}") for i, value in enumerate(outputs)]
        line = [name, path.name, str(tolerance), " ".join(inputs), " ".join(outputs)]
        self.lines.append("\t".join(line))

    def by_onnxruntime(self, name, model, tolerance, inputs):
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        self.write(name, model, tolerance, inputs, session.run(None, inputs))


def node_cases(cases):
    from onnx.backend.test.case.node import collect_testcases

    for case in collect_testcases(None):
        graph = case.model.graph
        if case.name.endswith("_expanded") or any(node.op_type not in OPS for node in graph.node):
            continue
        inputs, outputs = case.data_sets[0]
        known = lambda values: all(str(getattr(value, "dtype", None)) in TYPES for value in values)
        if not known(inputs) or not known(outputs) or len(outputs) != 1:
            continue
        inputs = dict(zip([value.name for value in graph.input], inputs))
        for node in graph.node:
            for index in SHAPE_INPUTS.get(node.op_type, []):
                if index < len(node.input) and node.input[index] in inputs:
                    value = inputs.pop(node.input[index])
                    graph.initializer.append(numpy_helper.from_array(value, node.input[index]))
        declared = [value for value in graph.input if value.name in inputs]
        del graph.input[:]
        graph.input.extend(declared)
        cases.write(case.name, case.model.SerializeToString(), 1e-4, inputs, outputs)


def random_graph(rng, number):
    """A chain of ops on feature maps of one, two or three dims."""
    opset = rng.choice([11, 13, 14, 15, 17, 21])
    rank = rng.choice([1, 2, 2, 2, 3])
    weights = np.random.default_rng(number)
    nodes, constants = [], []
    dims = [rng.choice([1, 1, 2, 3]), rng.choice([1, 2, 3, 4, 6, 8])]
    dims += [rng.randint(5, 20 if rank < 3 else 9) for _ in range(rank)]
    shape, now = list(dims), "x"

    def constant(dims, low=-1.0, high=1.0):
        name = f"c{len(constants)}"
        value = weights.uniform(low, high, dims).astype(np.float32)
        constants.append(numpy_helper.from_array(value, name))
        return name

    def node(op, inputs, **attributes):
        nonlocal now
        name = f"t{len(nodes)}"
        nodes.append(helper.make_node(op, inputs, [name], name=f"{op}.{len(nodes)}", **attributes))
        now = name

    def conv():
        groups = [1, 1] + [shape[1]] * 2 + [g for g in (2, 3) if shape[1] % g == 0]
        group = rng.choice(groups)
        maps = group * rng.choice([1, 1, 2, 3, 5])
        kernel = [rng.choice([k for k in (1, 2, 3, 5) if k <= dim]) for dim in shape[2:]]
        strides = [rng.choice([1, 1, 2, 3]) for _ in kernel]
        attributes = dict(group=group, strides=strides)
        dilations = [1] * rank
        mode = rng.choice(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
        if mode == "NOTSET":
            dilations = [rng.choice([1, 1, 2]) for _ in kernel]
            pads = [rng.choice([0, 1, 2, 3]) for _ in range(2 * rank)]
            for i in range(rank):
                if (kernel[i] - 1) * dilations[i] + 1 > shape[2 + i] + pads[i] + pads[rank + i]:
                    dilations[i] = 1
            attributes.update(pads=pads, dilations=dilations)
        else:
            attributes.update(auto_pad=mode)
        if rng.random() < 0.5:
            attributes.update(kernel_shape=kernel)
        inputs = [now, constant([maps, shape[1] // group] + kernel)]
        if rng.random() < 0.4:
            inputs.append(constant([maps]))
        node("Conv", inputs, **attributes)
        for i, (k, s, d) in enumerate(zip(kernel, strides, dilations)):
            reach, own = (k - 1) * d + 1, shape[2 + i]
            if mode == "NOTSET":
                own += pads[i] + pads[rank + i]
                shape[2 + i] = (own - reach) // s + 1
            elif mode == "VALID":
                shape[2 + i] = (own - reach) // s + 1
            else:
                shape[2 + i] = -(-own // s)
        shape[1] = maps

    def norm():
        own = [constant([shape[1]]) for _ in range(3)] + [constant([shape[1]], 0.1, 2.0)]
        node("BatchNormalization", [now] + own, epsilon=rng.choice([1e-5, 1e-3]))

    def arithmetic():
        per_map, tail = [shape[1]] + [1] * rank, shape[rng.randint(1, len(shape)) :]
        own = rng.choice([[1] + per_map, per_map, [1], [], list(shape), tail])
        inputs = [now, constant(own)]
        rng.shuffle(inputs)
        node(rng.choice(["Add", "Mul"]), inputs)

    def squeeze():
        before = now
        node("GlobalAveragePool", [now])
        node("Conv", [now, constant([shape[1], shape[1]] + [1] * rank)])
        node("HardSigmoid", [now], alpha=0.2, beta=0.5)
        node("Mul", [before, now])

    def simple():
        ops = ["Relu", "HardSigmoid", "Identity"] + (["HardSwish"] if opset >= 14 else [])
        node(rng.choice(ops), [now])

    def join():
        own = constant([shape[0], 1] + shape[2:])
        node("Concat", [now, now, own], axis=rng.choice([1, -rank - 1]))
        shape[1] = 2 * shape[1] + 1

    def softmax():
        node("Softmax", [now], axis=rng.choice([1, 2, -1]))

    for step in [conv] + [rng.choice([conv, norm, arithmetic, squeeze, simple, join, softmax])
                          for _ in range(rng.randint(2, 8))]:
        step()
        if rng.random() < 0.4:
            simple()
    info = helper.make_tensor_value_info
    inputs = [info("x", TensorProto.FLOAT, dims)]
    graph = helper.make_graph(nodes, "g", inputs, [info(now, TensorProto.FLOAT, None)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    x = weights.uniform(-1, 1, dims).astype(np.float32)
    return model.SerializeToString(), {"x": x}


def attention(rng, number):
    """Attention of some heads, with factors, masks and transposes where exporters write them."""
    n, h, s, d = rng.choice([1, 2]), rng.choice([1, 2, 5]), rng.randint(1, 60), rng.randint(1, 40)
    t, e = rng.choice([s, rng.randint(1, 60)]), rng.choice([d, rng.randint(1, 40)])
    weights = np.random.default_rng(number)
    nodes, constants, inputs = [], [], {}

    def constant(dims, low=-1.0, high=1.0):
        name = f"c{len(constants)}"
        value = np.asarray(weights.uniform(low, high, dims), np.float32)
        constants.append(numpy_helper.from_array(value, name))
        return name

    def node(op, own, **attributes):
        nodes.append(helper.make_node(op, own, [f"t{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    def operand(name, rows, width, columns=False):
        by_row = rng.random() < 0.6
        dims = (n, rows, h, width) if by_row else (n, h, rows, width)
        inputs[name] = weights.uniform(-1, 1, dims).astype(np.float32)
        if by_row and columns and rng.random() < 0.7:
            return node("Transpose", [name], perm=[0, 2, 3, 1])
        now = node("Transpose", [name], perm=[0, 2, 1, 3]) if by_row else name
        return node("Transpose", [now], perm=[0, 1, 3, 2]) if columns else now

    def scaled(now, chance):
        if rng.random() < chance:
            factor = constant(rng.choice([[], [1]]), 0.1, 1.5)
            now = node(rng.choice(["Mul", "Div"]), [now, factor])
        return now

    q, k = scaled(operand("q", s, d), 0.3), scaled(operand("k", t, d, columns=True), 0.3)
    now = scaled(node("MatMul", [q, k]), 0.7)
    if rng.random() < 0.6:
        dims = rng.choice([[n, 1, 1, t], [s, t], [1, h, s, 1], [n, h, s, t], [t], [1]])
        own = [now, constant(dims, -9.0, 0.0)]
        rng.shuffle(own)
        now = node("Add", own)
    now = node("Softmax", [now], axis=rng.choice([3, -1]))
    now = node("MatMul", [now, operand("v", t, e)])
    if rng.random() < 0.7:
        now = node("Transpose", [now], perm=[0, 2, 1, 3])
    info = helper.make_tensor_value_info
    declared = [info(name, TensorProto.FLOAT, x.shape) for name, x in inputs.items()]
    outputs = [info(now, TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", declared, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString(), 1e-5, inputs


def page(rng, turns):
    """Dark lines of words on a light page, turned, as the model is given pages."""
    image = np.full((224, 224), 0.97, np.float32)
    for top in range(12, 210, 12):
        left = 14
        while left < 200:
            width = int(rng.integers(4, 20))
            image[top : top + 6, left : left + width] -= rng.uniform(0.2, 0.9, (6, 1))[:, :1]
            left += width + 4
    image = np.rot90(np.clip(image, 0, 1), turns)
    mean = np.array([0.485, 0.456, 0.406]).reshape(3, 1, 1)
    deviation = np.array([0.229, 0.224, 0.225]).reshape(3, 1, 1)
    return ((image[None] - mean) / deviation).astype(np.float32)


def real_pages():
    """Images of DFLOW_PAGES_DIR, up to eight, as the model is given pages but for the filter."""
    from PIL import Image

    mean = np.array([0.485, 0.456, 0.406], np.float32).reshape(3, 1, 1)
    deviation = np.array([0.229, 0.224, 0.225], np.float32).reshape(3, 1, 1)
    folder = os.environ.get("DFLOW_PAGES_DIR")
    paths = sorted(pathlib.Path(folder).glob("*.png"))[:8] if folder else []
    for number, path in enumerate(paths):
        image = Image.open(path).convert("RGB").resize((224, 224))
        pixels = np.rot90(np.asarray(image, np.float32) / 255, number % 4).transpose(2, 0, 1)
        yield path.name, ((pixels - mean) / deviation).astype(np.float32)[None]


def whole_model(cases, path):
    model = path.read_bytes()
    rng = np.random.default_rng(1)
    for batch in (1, 3):
        x = rng.standard_normal((batch, 3, 224, 224)).astype(np.float32)
        cases.by_onnxruntime(f"orientation noise N={batch}", model, 1e-4, {"x": x})
    for turns in range(4):
        x = page(rng, turns)[None]
        cases.by_onnxruntime(f"orientation page {90 * turns}", model, 1e-4, {"x": x})
    if onnx is not None:
        halves.whole(cases, "orientation", onnx.load_from_string(model), {"x": page(rng, 1)[None]})
    x = np.stack([page(rng, turns) for turns in range(3)])
    cases.by_onnxruntime("orientation pages N=3", model, 1e-4, {"x": x})
    for name, x in real_pages():
        cases.by_onnxruntime(f"orientation {name}", model, 1e-4, {"x": x})


# Models of text by the ends of their names, with the sizes that they are compiled for.
OF_TEXT = {"det_infer": (3, 96, 160), "rec_infer": (3, 48, 160), "cls_infer": (3, 48, 192)}


def model_of_text(cases, path):
    dims = next((dims for end, dims in OF_TEXT.items() if path.stem.endswith(end)), None)
    if dims is not None:
        x = np.random.default_rng(2).uniform(-1, 1, (1, *dims)).astype(np.float32)
        cases.by_onnxruntime(path.stem, path.read_bytes(), 1e-4, {"x": x})
        if onnx is not None:
            # Of noise, the probabilities of text are nothing that a half has.
            x = page(np.random.default_rng(3), 0)[:, 10 : 10 + dims[1], 10 : 10 + dims[2]]
            x = np.kron(x, np.ones((1, 2, 2), np.float32))[None, :, : dims[1], : dims[2]]
            x = np.ascontiguousarray(x)
            halves.whole(cases, path.stem, onnx.load(path), {"x": x})


def main():
    folder = pathlib.Path(sys.argv[1])
    onnxruntime.set_default_logger_severity(3)
    cases = Cases(folder)
    if onnx is not None:
        node_cases(cases)
        rng = random.Random(1)
        for number in range(150):
            model, inputs = random_graph(rng, number)
            cases.by_onnxruntime(f"random graph {number}", model, 1e-4, inputs)
        for number in range(60):
            cases.by_onnxruntime(f"attention {number}", *attention(rng, number))
        halves.made(cases)
    for number in range(150):
        model, inputs, outputs = frozen.random_graph(number)
        cases.write(f"frozen graph {number}", model, 1e-4, inputs, outputs)
    for path in map(pathlib.Path, sys.argv[2:]):
        (whole_model if "orientation" in path.name else model_of_text)(cases, path)
    (folder / "cases.txt").write_text("".join(line + "\n" for line in cases.lines))
    version = "not there: its node cases and random graphs are skipped"
    print(f"onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__ if onnx else version}")


if __name__ == "__main__":
    main()
