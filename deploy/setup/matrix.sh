#!/bin/sh
# The ring on a real Slurm, against other releases than this machine's: makes a Debian with each release below a temporary
# directory, clones the last commit into it, runs the tests marked `cluster` there, and removes it with all that still runs in it.
# MATRIX="trixie forky" names the suites, PYTEST_ARGS is handed on, MATRIX_KEEP=1 keeps the roots. What cannot be made is skipped.
set -u
umask 022
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH
here=$(cd "$(dirname "$0")" && pwd -P) || exit 1
. "$here/lib.sh"
. "$here/machine.sh"
. "$here/root.sh"
. "$here/inside.sh"

RING='TORCH=0 NODEVET_ANYWAY=1 sh deploy/setup/setup.sh && .venv/bin/python -m pytest -q -m cluster -p no:cacheprovider ${PYTEST_ARGS:-} tests/cluster'

# Runs the ring in one suite: 0 passed, 1 failed, 2 skipped.
one() {
    started=$(date +%s)
    make_suite "$1" || { say "matrix: $1 is skipped: its root cannot be made here (see above)"; return 2; }
    release=$(chroot "$BARE" /usr/sbin/slurmctld -V 2>/dev/null | sed 's/^[^ ]* //')
    say "matrix: $1 has Slurm ${release:-of unknown release}, made in $(($(date +%s) - started)) s ($(du -sm "$BARE" | cut -f1) MB)"
    pass_configuration
    logged "matrix-$1-certificates" chroot "$BARE" /usr/bin/env -i PATH="$PATH" update-ca-certificates
    clone
    BARE_COMMAND=$RING run_inside
    status=$?
    [ "$status" = 0 ] && verdict=passed || verdict="FAILED ($status)"
    say "matrix: Slurm $release on $1: $verdict after $(($(date +%s) - started)) s"
    [ "$status" = 0 ]
}

remove_root() {
    [ -z "${MATRIX_KEEP:-}" ] || { say "kept: $WORK"; return; }
    rm -rf --one-file-system "$WORK"
}

# In a process of its own, so that its root is removed whatever happens to it.
suite() (
    WORK=$(mktemp -d /var/tmp/nodevet-matrix-XXXXXX) || exit 1
    chmod 0755 "$WORK"
    BARE=$WORK/root
    : >"$WORK/binds"
    trap remove_root EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    one "$1"
)

locate "${here%/deploy/setup}"
AT=/srv/nodevet
case "${MATRIX:-}" in *[!a-z\ ]*) die "MATRIX: $MATRIX is no list of suites" ;; esac
[ "$(id -u)" = 0 ] || { say "matrix: skipped: only root can make other Debians"; exit 0; }
own_dir "$STATE"
refuse_production
(ensure_packages mmdebstrap) || { say "matrix: skipped: mmdebstrap is not installed and cannot be"; exit 0; }
failed=0
for name in ${MATRIX:-trixie forky}; do
    suite "$name"
    case $? in 0 | 2) ;; 130 | 143) exit 1 ;; *) failed=1 ;; esac
done
exit "$failed"
