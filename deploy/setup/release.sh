#!/bin/sh
# Runs `nodevet sim matrix` with the arguments given behind the suite against the Slurm of another Debian: release.sh SUITE [ARGUMENT …]
# The Debian is made once (about a minute and the network for it), kept below /var/tmp beside the set-up's other directories, and
# holds an environment of its own; `make clean` removes it. The checkout is copied into it as it is now. What is said goes to
# standard error. Ends with 69 where the Debian cannot be made, 77 where one may not, else as the command does (1: refused).
set -u
umask 022
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH
here=$(cd "$(dirname "$0")" && pwd -P) || exit 1
. "$here/lib.sh"
. "$here/machine.sh"
. "$here/root.sh"
. "$here/inside.sh"

AT=/srv/nodevet
SETUP='TORCH=0 NODEVET_ANYWAY=1 sh deploy/setup/setup.sh >&2'
# Arguments come from a file, one after the other, so that no shell ever reads them.
PLAY='xargs -0 .venv/bin/nodevet sim matrix <../arguments'

give_up() {
    say "$*"
    exit 69
}

# Makes the root beside its place and moves it there when it is whole: a half of one is never taken for one.
ensure_root() {
    BARE=$ROOTS/$1
    [ ! -d "$BARE" ] || return 0
    started=$(date +%s)
    find "$ROOTS" -mindepth 1 -maxdepth 1 -name "making-$1-*" -exec rm -rf --one-file-system {} +
    (ensure_packages mmdebstrap) || give_up "mmdebstrap is not installed and cannot be"
    say "making a Debian $1 in $BARE, once: this takes about a minute"
    BARE=$ROOTS/making-$1-$$
    make_suite "$1" || { rm -rf --one-file-system "$BARE"; give_up "no Debian $1 can be made here (see above): no network, or no such suite"; }
    mkdir -p "$BARE$AT"
    mv "$BARE" "$ROOTS/$1" && BARE=$ROOTS/$1
    say "made in $(($(date +%s) - started)) s, $(du -sm "$BARE" | cut -f1) MB; make clean removes it"
}

# What git knows of and what it would take, as it lies here now; the environment of the last time stays.
copy_checkout() {
    find "$BARE$AT" -mindepth 1 -maxdepth 1 ! -name .venv -exec rm -rf --one-file-system {} +
    (cd "$ROOT" && git ls-files -z --cached --others --exclude-standard | xargs -0 sh -c 'for f; do [ ! -e "$f" ] || printf "%s\0" "$f"; done' sh |
        tar -c --null --no-recursion -T - | tar -x --no-same-owner -C "$BARE$AT") || give_up "the checkout could not be copied"
}

locate "${here%/deploy/setup}"
case "${1:-}" in '' | *[!a-z]*) die "which suite? ${1:-} is none" ;; esac
suite=$1
shift
[ "$(id -u)" = 0 ] || { say "only root can make another Debian"; exit 77; }
[ -d "$ROOT/.git" ] || [ -f "$ROOT/.git" ] || give_up "$ROOT is no checkout: there is nothing to copy"
{
    own_dir "$STATE"
    own_dir "$ROOTS"
    record "roots $ROOTS"
    # One at a time in a root; another run waits for its turn.
    exec 7>"$ROOTS/$suite.lock" && flock 7 || give_up "$ROOTS cannot be locked"
    WORK=$(mktemp -d /var/tmp/nodevet-release-XXXXXX) || exit 1
    trap 'rm -rf --one-file-system "$WORK"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    : >"$WORK/binds"
    ensure_root "$suite"
    pass_configuration
    copy_checkout
    logged "release-$suite-certificates" chroot "$BARE" /usr/bin/env -i PATH="$PATH" update-ca-certificates
    printf '%s\0' "$@" >"$BARE${AT%/*}/arguments"
} >&2
BARE_COMMAND=$SETUP run_inside >&2 || { say "the environment could not be made in $BARE" >&2; exit 69; }
BARE_COMMAND=$PLAY run_inside
exit $?
