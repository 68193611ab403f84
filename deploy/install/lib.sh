# How the installer speaks and acts, and what it makes sure of before it changes anything. Sourced, never run.

say() { printf 'install: %s\n' "$*"; }

die() {
    printf 'install: %s\n' "$*" >&2
    exit 1
}

# Runs a command, or prints it in a dry run.
run() {
    if [ -n "$DRY" ]; then
        printf 'would run:'
        printf ' %s' "$@"
        printf '\n'
    else
        "$@"
    fi
}

# Installs file $1 as $2 with mode $3. Written beside and renamed: nobody reads half a file.
put() {
    run install -D -m "$3" "$1" "$D$2.new" && run mv -f "$D$2.new" "$D$2" || die "$D$2 could not be written"
}

# The same for what comes in on standard input.
put_text() {
    text=$(mktemp) || exit 1
    cat >"$text"
    put "$text" "$1" "$2"
    rm -f "$text"
}

# What goes into files and paths is checked once, here: no quote, blank or control character.
check_words() {
    for word in "$PREFIX" "$NODE" "$CLUSTER" "$CENTRAL"; do
        case $word in
        *[!A-Za-z0-9._:/@%+=~-]*) die "'$word' holds a character that has no place in a name, a path or a URL" ;;
        esac
    done
    case $PREFIX in /*/*) ;; *) die "prefix '$PREFIX' is not an absolute path below some directory" ;; esac
    [ -z "$TOKEN" ] || [ -f "$TOKEN" ] || die "token file $TOKEN does not exist"
    [ -z "$WHEELS" ] || [ -d "$WHEELS" ] || die "wheel directory $WHEELS does not exist"
}

# A worker that gives up root must still reach the interpreter.
check_python() {
    "$PYTHON" -I -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
        die "$PYTHON is no Python 3.10 or later with venv (Debian: apt-get install python3-venv)"
    dir=$(dirname "$(readlink -f "$PYTHON")")
    while [ "$dir" != / ]; do
        [ -n "$(find "$dir" -prune -perm -001)" ] ||
            die "$PYTHON lies below $dir, which other users cannot enter: workers that give up root would not find it"
        dir=$(dirname "$dir")
    done
}

# PREFIX is a link to the release in force; a directory there is somebody else's.
check_prefix() {
    [ ! -e "$D$PREFIX" ] || [ -L "$D$PREFIX" ] || die "$D$PREFIX is there and no link of ours: move it away, or choose another --prefix"
}

check_hook_source() {
    if [ -n "$BUILT" ]; then
        for name in prolog epilog health; do
            [ -x "$BUILT/nodevet-$name" ] || die "$BUILT/nodevet-$name is missing"
        done
    else
        command -v gcc >/dev/null || die "gcc is missing (Debian: apt-get install gcc libc6-dev); --hook DIR takes programs built elsewhere"
    fi
}

# Prints where Slurm is told to run our hooks: removing them then would fail every prolog, and drain every node.
hooks_in_use() {
    {
        grep -lsE "^[^#]*$HOOKS/nodevet-" "$D"/etc/slurm/*.conf
        find "$D/etc/slurm" -lname "*$HOOKS/nodevet-*" 2>/dev/null
        if [ -z "$D" ] && command -v scontrol >/dev/null; then
            timeout 10 scontrol show config 2>/dev/null | grep -E "^[A-Za-z]+(\[[0-9]+\])? *= .*$HOOKS/nodevet-" | sed 's/^/the running Slurm: /'
        fi
    } | tr '\n' ';'
}
