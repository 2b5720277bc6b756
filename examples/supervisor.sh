#!/bin/sh
# Runs kvd and starts it again when it has crashed, as the systemd unit kvd@.service does. Clients
# reconnect and resume their requests.
#   supervisor.sh [FLAGS OF KVD]
# SIGTERM and SIGINT stop kvd, and the script with it. Flags that are wrong stay wrong, so the script
# ends with them. It needs kvd in PATH.
set -u
child=
pause=1
stop() {
  trap '' INT TERM
  [ -z "$child" ] || { kill -TERM "$child" 2>/dev/null; wait "$child"; }
  exit 0
}
trap stop INT TERM
while :; do
  started=$(date +%s)
  kvd "$@" &
  child=$!
  wait "$child"
  status=$?
  child=
  [ $status != 0 ] || exit 0
  [ $status != 2 ] || exit 2
  # A daemon that fails at once is started less often.
  [ $(($(date +%s) - started)) -lt 60 ] || pause=1
  echo "supervisor: kvd has ended with status $status; it is started again in $pause s" >&2
  sleep "$pause" &
  wait $!
  pause=$((pause < 32 ? pause * 2 : 60))
done
