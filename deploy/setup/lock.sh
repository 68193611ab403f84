#!/bin/sh
# Writes requirements.lock and torch.lock anew: what pip chooses today for pyproject.toml, in an environment of its own.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
root=${here%/deploy/setup}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=/usr/bin/python3
pip="$work/venv/bin/python -m pip --disable-pip-version-check --no-input"

# Keeps the comment lines that open lock $1, then adds what comes in, sorted as pip sorts it.
rewrite() {
    { sed -n '/^#/p' "$1"; cat; } >"$work/new"
    cat "$work/new" >"$1"
}

"$python" -I -m venv "$work/venv"
mkdir "$work/source"
cp "$root/pyproject.toml" "$root/README.md" "$root/LICENSE" "$work/source"
$pip install -q 'setuptools>=77' "$work/source[dev]"
$pip freeze --all | grep -Ev '^(nodevet|pip)([ =@])' >"$work/base"
{ cat "$work/base"; grep 'python_version <' "$here/requirements.lock" || :; } | rewrite "$here/requirements.lock"
torch=$(sed -n 's/^\(torch==.*\)/\1/p' "$here/torch.lock")
$pip install -q --dry-run --report "$work/report" "$torch"
"$python" -I - "$work/report" <<'EOF' | rewrite "$here/torch.lock"
import json, sys
chosen = {m["name"]: m["version"].partition("+")[0] for m in (i["metadata"] for i in json.load(open(sys.argv[1]))["install"])}
print("\n".join(f"{name}=={version}" for name, version in sorted(chosen.items(), key=lambda x: (x[0] != "torch", x[0].lower()))))
EOF
printf 'lock: %s packages, and %s with torch\n' "$(grep -c == "$here/requirements.lock")" "$(grep -c == "$here/torch.lock")"
