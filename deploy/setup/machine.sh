# What set-up does to the machine itself: refuses a production Slurm node, installs missing packages, starts and enables nothing.

PACKAGES="python3-venv python3-dev gcc libc6-dev make ca-certificates procps mount munge slurmctld slurmd slurm-client slurmrestd slurm-wlm-jwt-plugin"
SERVICES="munge slurmctld slurmd slurmdbd slurmrestd"
POLICY=/usr/sbin/policy-rc.d
UNITS=/etc/systemd/system
POLICY_MARK="# put here by nodevet's set-up, for the time of one apt-get"

# Prints the Slurm and MUNGE daemons that are no part of a simulated cluster, one a line ("slurmd (pid 12)").
foreign_daemons() {
    proc=${1:-/proc}
    grep -lxE 'slurmd|slurmctld|slurmdbd|munged' "$proc"/[0-9]*/comm 2>/dev/null | while IFS= read -r comm; do
        dir=${comm%/comm}
        [ ! -e "$dir/root" ] || [ "$dir/root" -ef / ] || continue # in a container or a chroot: not this system's
        args=$(tr '\0' '\n' <"$dir/cmdline" 2>/dev/null) || continue
        [ -n "$args" ] || continue # a zombie
        simulated "$args" "$(tr '\0' '\n' 2>/dev/null <"$dir/environ")" && continue
        printf '%s (pid %s)\n' "$(cat "$comm")" "${dir##*/}"
    done
}

# True of a daemon of a simulated cluster: it carries the mark, or its slurm.conf (-f) or MUNGE socket (-S) is a temporary file.
simulated() {
    printf '%s\n' "$2" | grep -q '^NODEVET_LAB=' && return 0
    { printf '%s\n' "$1" | sed -nE '/^(-f|-S|--socket)$/{n;p;d}; s/^(-f|-S|--socket=)(.+)/\2/p'
      printf '%s\n' "$2" | sed -n 's/^SLURM_CONF=//p'; } | grep -qE '^(/tmp|/var/tmp|/dev/shm)/'
}

# Ends the set-up where Slurm or MUNGE is in use: that is a cluster's node, no place to install things on.
refuse_production() {
    found=$(foreign_daemons "${1:-/proc}" | tr '\n' ' ')
    [ -n "$found" ] || return 0
    if [ -n "${NODEVET_ANYWAY:-}" ]; then
        say "Slurm or MUNGE is in use on this machine: ${found}- going on, as NODEVET_ANYWAY says"
        return 0
    fi
    die "Slurm or MUNGE is in use on this machine: ${found}- this is for a machine to develop and test on." \
        "Nothing was changed. NODEVET_ANYWAY=1 goes on all the same; running daemons and /etc/slurm are left alone."
}

missing_packages() {
    have=" $(dpkg-query -W -f '${db:Status-Status}=${Package} ' "$@" 2>/dev/null) "
    for package in "$@"; do
        case "$have" in *" installed=$package "*) ;; *) printf '%s ' "$package" ;; esac
    done
}

installed_packages() { dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p' | LC_ALL=C sort -u; }

enabled_services() {
    for service in $SERVICES; do
        for link in "$UNITS"/*.wants/"$service".service; do
            [ ! -L "$link" ] || printf '%s\n' "$service.service"
        done
    done | LC_ALL=C sort -u
}

# Installs what is missing of the packages named; touches nothing, and asks no network, when none is.
ensure_packages() {
    command -v dpkg-query >/dev/null || die "this needs Debian 12 or a system with its packages; install what corresponds to: $*"
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    [ "$(id -u)" = 0 ] || die "these packages are missing: ${missing}- run this once as root, or install them"
    # One at a time on this machine: the first to end would take the other's policy-rc.d away.
    exec 8</var/lib/dpkg && flock 8 || die "/var/lib/dpkg cannot be locked"
    missing=$(missing_packages "$@")
    say "installing Debian packages: $missing"
    installed_packages >"$STATE/packages.before"
    enabled_services >"$STATE/enabled.before"
    forbid_starts
    [ -z "$missing" ] || install_packages $missing 8<&-
    status=$?
    allow_starts
    installed_packages | LC_ALL=C comm -13 "$STATE/packages.before" - | while IFS= read -r package; do record "package $package"; done
    disable_new_services
    exec 8<&-
    rm -f "$STATE/packages.before" "$STATE/enabled.before"
    [ "$status" = 0 ] || die "the packages could not be installed (see above)"
}

install_packages() {
    logged apt-update env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 update ||
        say "apt-get update failed in part: trying with the lists there are"
    logged apt-install env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
        install --no-install-recommends "$@"
}

# A policy-rc.d that says "no" keeps packages from starting their services; one that is there already is somebody's decision.
forbid_starts() {
    [ ! -e "$POLICY" ] || return 0
    trap allow_starts EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    printf '#!/bin/sh\n%s\nexit 101\n' "$POLICY_MARK" >"$POLICY"
    chmod 0755 "$POLICY"
}

allow_starts() {
    if grep -qxF "$POLICY_MARK" "$POLICY" 2>/dev/null; then rm -f "$POLICY"; fi
}

# What the packages enabled by being installed is disabled again; what was enabled before stays as it was.
disable_new_services() {
    enabled_services | LC_ALL=C comm -13 "$STATE/enabled.before" - | while IFS= read -r unit; do
        if [ -d /run/systemd/system ]; then
            systemctl disable --now "$unit" >/dev/null 2>&1 || say "could not disable $unit: do it by hand"
        else
            rm -f "$UNITS"/*.wants/"$unit"
        fi
        record "disabled $unit"
        say "left disabled: $unit"
    done
}
