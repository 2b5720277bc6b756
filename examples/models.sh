#!/bin/sh
# Serves several models at once, each by a daemon with a name of its own, and asks each of them.
#   models.sh QUESTION NAME=FILE.gguf...
# The daemons end with the script. It needs kvd and kvctl in PATH.
set -eu
[ $# -ge 2 ] || { echo "usage: $0 QUESTION NAME=FILE.gguf..." >&2; exit 2; }
question=$1
shift
daemons=
trap 'kill $daemons 2>/dev/null; wait' EXIT
for model in "$@"; do
  kvd --name "${model%%=*}" -m "${model#*=}" --log-level warning &
  daemons="$daemons $!"
done
for model in "$@"; do
  name=${model%%=*}
  tries=0
  until kvctl --name "$name" ping -c 1 >/dev/null 2>&1; do # a large model takes a while to start
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { echo "$0: the daemon $name does not start" >&2; exit 1; }
    sleep 0.1
  done
  printf '%s: ' "$name"
  kvctl --name "$name" run --chat -t 0 -n 64 "$question"
done
