"""What the Python package rapidocr-onnxruntime reads on pages: oracle.py MODELS_DIR SETTINGS.

MODELS_DIR holds the package, unpacked. SETTINGS is JSON: width and height of the canvas that a page
is scaled to, rec_width of the recogniser's input. Standard input: pages, each its length (8 bytes,
little endian) and its file's bytes. Standard output: one JSON object a line for each page; with
"details" in SETTINGS it tells boxes and sizes of lines, and bytes follow it: the canvas, the
detector's map (float32), every line as it was cut out.
"""

import json
import os
import resource
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


class Reader:
    """The package at fixed sizes: pages as large as the canvas allows, lines of rec_width."""

    def __init__(self, settings):
        from rapidocr_onnxruntime import RapidOCR

        self.sides = settings["width"], settings["height"]
        self.engine = RapidOCR()
        # The canvas has the detector's sides; the package must not scale it again.
        self.engine.text_det.limit_type = "max"
        self.engine.text_rec.rec_image_shape = [3, 48, settings["rec_width"]]

    def canvas(self, file):
        """The page on its canvas, and how many pixels of the file are one of it, both ways."""
        import cv2
        import numpy as np

        page = self.engine.load_img(file)
        height, width = page.shape[:2]
        scale = min(self.sides[0] / width, self.sides[1] / height)
        across, down = (max(1, round(side * scale)) for side in (width, height))
        canvas = np.full((self.sides[1], self.sides[0], 3), 255, np.uint8)
        canvas[:down, :across] = cv2.resize(page, (across, down))
        return canvas, np.array([width / across, height / down])

    def read(self, file):
        import numpy as np

        canvas, ratio = self.canvas(file)
        found, _ = self.engine(canvas)
        return [
            {"text": text, "confidence": confidence, "corners": (np.array(box) * ratio).tolist()}
            for box, text, confidence in found or []
        ]

    def details(self, file):
        canvas, _ = self.canvas(file)
        detector, maps = self.engine.text_det, []
        infer = detector.infer

        def record(tensor):
            maps.append(infer(tensor)[0])
            return maps[-1:]

        detector.infer = record
        boxes, _ = self.engine.auto_text_det(canvas)
        detector.infer = infer
        boxes = [] if boxes is None else boxes
        lines = self.engine.get_crop_img_list(canvas, boxes)
        parts = [canvas, maps[0].astype("<f4"), *lines]
        sizes = [line.shape[:2] for line in lines]
        return [box.tolist() for box in boxes], sizes, b"".join(part.tobytes() for part in parts)


def main(models_dir, settings):
    sys.path.insert(0, models_dir)
    settings = json.loads(settings)
    reader = Reader(settings)
    is_cold = True
    for file in pages(sys.stdin.buffer):
        if settings.get("details"):
            boxes, sizes, parts = reader.details(file)
            page = {"boxes": boxes, "sizes": sizes, "bytes": len(parts)}
            sys.stdout.buffer.write(json.dumps(page).encode() + b"\n" + parts)
            sys.stdout.buffer.flush()
            continue
        if is_cold:
            # The first run allocates what later ones use again.
            reader.read(file)
            is_cold = False
        start = time.perf_counter()
        lines = reader.read(file)
        ms = (time.perf_counter() - start) * 1e3
        peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        threads = len(os.sched_getaffinity(0))
        page = {"lines": lines, "ms": ms, "peak_kib": peak_kib, "threads": threads}
        print(json.dumps(page), flush=True)


main(sys.argv[1], sys.argv[2])
