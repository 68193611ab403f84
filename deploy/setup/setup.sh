#!/bin/sh
# Makes this machine able to run nodevet's demo and tests; a second run finds everything done and touches nothing.
# TORCH=0 leaves torch out. NODEVET_ANYWAY=1 goes on where Slurm or MUNGE is in use.
set -u
umask 022
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH
export PATH
here=$(cd "$(dirname "$0")" && pwd -P) || exit 1
. "$here/lib.sh"
. "$here/machine.sh"
. "$here/python.sh"

locate "${here%/deploy/setup}"
own_dir "$STATE"
locked_as "$0"
refuse_production
ensure_packages $PACKAGES
link_venv
ensure_venv
ensure_project
ensure_torch
say "ready: .venv/bin/nodevet (what was changed on this machine: $CHANGES; make clean undoes it)"
