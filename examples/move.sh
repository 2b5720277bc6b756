#!/bin/sh
# Gives a snapshot of one daemon to another with the same model, without computing it again.
#   move.sh NAME FROM TO
# FROM and TO are names of running daemons with the same --store. On another machine, copy the
# file UID/NAME of the store first. The script needs kvctl in PATH.
set -eu
[ $# = 3 ] || { echo "usage: $0 NAME FROM TO" >&2; exit 2; }
kvctl --name "$2" save "$1" --force
kvctl --name "$3" load "$1" --publish "$1" >/dev/null
kvctl --name "$3" snapshots
