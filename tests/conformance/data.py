"""The input of the source: `data.py make FOLDER STREAMS COUNT` and `data.py add FILE COUNT BYTES`."""

import sys
from pathlib import Path

if sys.argv[1] == "make":
    folder = Path(sys.argv[2])
    folder.mkdir()
    for stream in range(int(sys.argv[3])):
        lines = "".join(f'"m{stream}-{number:02}"\n' for number in range(1, int(sys.argv[4]) + 1))
        (folder / f"{stream}.jsonl").write_text(lines)
else:
    file, count, size = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    with open(file, "a") as out:
        out.write(f'"{"x" * size}"\n' * count)
