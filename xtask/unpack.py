"""Unpacks the test images of a scikit-image wheel: unpack.py WHEEL_DIR OUT_DIR NAME..."""

import pathlib
import sys
import zipfile


def main(wheel_dir: str, out_dir: str, names: list[str]) -> None:
    wheels = sorted(pathlib.Path(wheel_dir).glob("scikit_image-*.whl"))
    if len(wheels) != 1:
        found = [wheel.name for wheel in wheels]
        sys.exit(f"{wheel_dir}: expected one scikit_image wheel, found {found}; delete the folder")
    out = pathlib.Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheels[0]) as wheel:
        for name in names:
            (out / name).write_bytes(wheel.read(f"skimage/data/{name}"))


main(sys.argv[1], sys.argv[2], sys.argv[3:])
