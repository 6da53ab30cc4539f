"""Writes ONNX's node cases for node_cases.rs: python node_cases.py FOLDER.

A line of FOLDER/cases.txt is a case: name, ops, model, rtol, atol, inputs of the first node, inputs
(name:type:dims:file), outputs (type:dims:file), separated by tabs; lists by U+001F, names by
blanks. A value of a type without an array here has `?` and what it is instead. Cases that are a
function's body in other ops (`_expanded`) are left out.
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases
from onnx.numpy_helper import to_array

TYPES = "float32 float64 float16 bfloat16 bool int8 int16 int32 int64 uint8 uint16 uint32 uint64"


def kind(value):
    if value is None:
        return "absent"
    if isinstance(value, (list, tuple)):
        return "sequence"
    dtype = getattr(value, "dtype", None)
    name = "string" if dtype == object or getattr(dtype, "kind", "") in "US" else str(dtype)
    return name


def main():
    folder = pathlib.Path(sys.argv[1])
    lines = []
    for case in collect_testcases(None):
        if "_expanded" in case.name:
            continue
        graph = case.model.graph
        number = len(lines)

        def dump(value, what):
            name = kind(value)
            if name not in TYPES.split():
                return f"?{name}"
            path = folder / f"{number}.{what}.bin"
            path.write_bytes(np.ascontiguousarray(value).tobytes())
            return f"{name}:{','.join(str(dim) for dim in value.shape)}:{path.name}"

        array = lambda value: to_array(value) if isinstance(value, onnx.TensorProto) else value
        given, expected = ([array(value) for value in values] for values in case.data_sets[0])
        names = [value.name for value in graph.input]
        inputs = [dump(value, f"in{i}") for i, value in enumerate(given)]
        if len(names) == len(inputs):
            inputs = [f"{name}:{value}" for name, value in zip(names, inputs)]
        else:
            inputs = ["x:?several files an input"]
        outputs = [dump(value, f"out{i}") for i, value in enumerate(expected)]
        domain = lambda node: f"{node.domain}." if node.domain else ""
        ops = sorted({domain(node) + node.op_type for node in graph.node})
        model = folder / f"{number}.onnx"
        model.write_bytes(case.model.SerializeToString())
        first = [name or "-" for name in graph.node[0].input]
        columns = [case.name, "+".join(ops), model.name, str(case.rtol), str(case.atol)]
        columns += [" ".join(first)] + ["\x1f".join(inputs), "\x1f".join(outputs)]
        lines.append("\t".join(columns))
    (folder / "cases.txt").write_text("".join(line + "\n" for line in lines))
    print(onnx.__version__)


if __name__ == "__main__":
    main()
