"""What retries cost: `retrykit lint` on matrices with one, two, three and five retries."""

import subprocess
import sys
import tempfile
from pathlib import Path

CLASSES = {1: "dns_failure", 2: "connection_error", 3: "network_timeout", 5: "provider_unavailable"}
POLICY = '[policies.{name}]\nmax_retries = {retries}\nbackoff = {{ kind = "constant", delay = "1m" }}\n'

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "matrix.toml")
    file.write_text("\n".join(POLICY.format(name=name, retries=retries) for retries, name in CLASSES.items()))
    subprocess.run([sys.executable, "-m", "retrykit.cli", "lint", str(file)], check=True)
