#!/bin/sh
# Installs Nodevet on a node of a real cluster, or upgrades it in place; the running version stays until the new one imports.
set -u
umask 022
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH

usage() {
    cat <<'EOF'
usage: install.sh [options]            install or upgrade the agent, the hooks and the nodevet command
       install.sh --uninstall [--purge]
  --server          install what the central service needs, too, and its unit
  --cluster NAME    the Slurm cluster (ClusterName), for a new nodevet.toml or server.toml
  --node NAME       the node's name in Slurm, for a new nodevet.toml
  --central URL     where the central service listens, for a new nodevet.toml
  --token FILE      copy this node's token to /etc/nodevet/token (mode 0600)
  --enable          enable and start the units (systemd)
  --hook DIR        take the hook programs from DIR instead of compiling them (no gcc on the nodes)
  --wheels DIR      install from the wheels in DIR only, without a package index
  --prefix DIR      default /opt/nodevet          --python FILE  default /usr/bin/python3 (or PYTHON=)
  --destdir DIR     put everything below DIR, for an image or a package (or DESTDIR=)
  --dry-run         print what would be done
  --force           uninstall although Slurm's configuration names the hooks
pip's own settings (PIP_INDEX_URL, proxies, pip.conf) are honoured.
EOF
}

here=$(cd "$(dirname "$0")" && pwd -P) || exit 1
ROOT=${here%/deploy/install}
D=${DESTDIR:-} PREFIX=/opt/nodevet HOOKS=/usr/libexec/nodevet PYTHON=${PYTHON:-/usr/bin/python3}
SERVER= CLUSTER= NODE= CENTRAL= TOKEN= ENABLE= BUILT= WHEELS= DRY= FORCE= PURGE= VERB=install
. "$here/lib.sh"
. "$here/parts.sh"

while [ $# -gt 0 ]; do
    case $1 in
    --server) SERVER=1 ;; --enable) ENABLE=1 ;; --dry-run) DRY=1 ;; --force) FORCE=1 ;; --purge) PURGE=1 ;;
    --uninstall) VERB=uninstall ;;
    --node | --cluster | --central | --token | --hook | --wheels | --prefix | --python | --destdir)
        [ $# -ge 2 ] || { usage >&2; exit 64; }
        case $1 in
        --node) NODE=$2 ;; --cluster) CLUSTER=$2 ;; --central) CENTRAL=$2 ;; --token) TOKEN=$2 ;; --hook) BUILT=$2 ;; --wheels) WHEELS=$2 ;;
        --prefix) PREFIX=${2%/} ;; --python) PYTHON=$2 ;; --destdir) D=${2%/} ;;
        esac
        shift ;;
    -h | --help) usage; exit 0 ;;
    *) printf 'install: unknown option %s\n' "$1" >&2; usage >&2; exit 64 ;;
    esac
    shift
done

check_words
[ -n "$D" ] || [ -n "$DRY" ] || [ "$(id -u)" = 0 ] || die "only root can install; --destdir DIR puts everything below DIR"
if [ "$VERB" = uninstall ]; then
    uninstall
    exit
fi
keep_server
check_python
check_prefix
check_hook_source
make_release
install_hooks
switch_release
install_configuration
install_units
make_users
remove_old_releases
finish
