"""What `hgplvm fit` costs before the fit begins: imports, and reading a CSV file of 2,730 × 999.

Each line is the best of several new processes, and a ratio against what anybody would do by hand in
the same run: importing torch and scikit-learn, and reading the file with pandas.

    python benchmarks/speed/startup.py
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

TASKS = {
    "import hgplvm": "import hgplvm",
    "hgplvm --version": "import sys; sys.argv = ['hgplvm', '--version']\n"
    "from hgplvm.cli import main\n"
    "try:\n    main()\nexcept SystemExit:\n    pass",
    "torch and scikit-learn": "import torch, sklearn.base",
    "the models": "import hgplvm; hgplvm.HGPLVM",
    "pandas.read_csv": "import pandas; pandas.read_csv({path!r}).to_numpy()",
    "read_table": "from hgplvm._tables import read_table; read_table({path!r})",
    "by hand: all of these": "import torch, sklearn.base, pandas; pandas.read_csv({path!r})",
    "hgplvm fit, until it fits": "from pathlib import Path\n"
    "from hgplvm.cli import _embed\n"
    "from hgplvm.cli._rows import read_rows\n"
    "rows = read_rows(Path({path!r}))\n"
    "from hgplvm.estimators import choose_model\n"
    "choose_model('auto', len(rows.data))()",
}
PEERS = {
    "the models": "torch and scikit-learn",
    "read_table": "pandas.read_csv",
    "hgplvm fit, until it fits": "by hand: all of these",
}
TIMED = "import time as _time\n_started = _time.perf_counter()\n{code}\n"
TIMED += "import sys as _sys\n_sys.stderr.write(f'{{_time.perf_counter() - _started}}')"


def seconds(code: str) -> float:
    command = [sys.executable, "-c", TIMED.format(code=code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stderr.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2730)
    parser.add_argument("--columns", type=int, default=999)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "data.csv")
        header = ",".join(f"gene{i}" for i in range(options.columns))
        values = rng.standard_normal((options.rows, options.columns))
        np.savetxt(path, values, delimiter=",", header=header, comments="", fmt="%.17g")
        found: dict[str, float] = {}
        for name, code in TASKS.items():
            code = code.replace("{path!r}", repr(path))
            found[name] = min(seconds(code) for _ in range(options.repeats))
            peer = PEERS.get(name)
            ratio = f"{found[name] / found[peer]:6.2f} × {peer}" if peer else ""
            print(f"{name:<28}{found[name]:8.2f} s  {ratio}", flush=True)


if __name__ == "__main__":
    main()
