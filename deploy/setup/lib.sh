# What the set-up scripts share: where things lie, how they speak, and the list of what was changed on the machine.
# Sourced, never run; plain POSIX shell, since a bare Debian has nothing better.

say() { printf 'setup: %s\n' "$*"; }

die() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

# Sets ROOT (the checkout) and everything that is named after it. Two checkouts never share an environment.
locate() {
    ROOT=$1
    ID=$(printf '%s' "$ROOT" | sha256sum | cut -c1-8)
    BASE=${NODEVET_SETUP_BASE:-/var/tmp}
    VENV=$BASE/nodevet-venv-$ID
    STATE=$BASE/nodevet-setup-$ID
    ROOTS=$BASE/nodevet-roots-$ID
    CHANGES=$STATE/changes
    PYTHON=/usr/bin/python3
}

# Makes directory $1, or makes sure that the one there is ours alone: its name can be guessed and /var/tmp is everybody's.
own_dir() {
    mkdir -m 0755 "$1" 2>/dev/null || :
    [ -d "$1" ] || die "$1 cannot be made"
    [ ! -L "$1" ] || die "$1 is a link: remove it and run again"
    [ -O "$1" ] || die "$1 belongs to another user: nothing is put there"
    [ -z "$(find "$1" -prune -perm /022)" ] || die "$1 can be written by others: nothing is put there"
}

# Remembers one change ("kind value"), once.
record() {
    grep -qxF -- "$*" "$CHANGES" 2>/dev/null || printf '%s\n' "$*" >>"$CHANGES"
}

# Runs a command quietly into $STATE/$1.log; shows the end of the log when it fails.
logged() {
    log=$STATE/$1.log
    shift
    "$@" >"$log" 2>&1 </dev/null && return 0
    printf 'setup: failed: %s\n' "$*" >&2
    tail -n 20 "$log" | sed 's/^/    /' >&2
    return 1
}

# Runs the rest of this script as the only one for this checkout: `locked_as "$0"` returns in the one that holds the lock.
locked_as() {
    [ "${NODEVET_SETUP_LOCK:-}" != "$STATE" ] || return 0
    export NODEVET_SETUP_LOCK="$STATE"
    flock -o -n -E 75 "$STATE/lock" sh "$@"
    rc=$?
    if [ "$rc" = 75 ]; then
        say "another set-up of this checkout is running: waiting for it"
        flock -o "$STATE/lock" sh "$@"
        rc=$?
    fi
    exit "$rc"
}
