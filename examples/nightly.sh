#!/bin/sh
# Computes contexts in advance, for a timer at night: publishes each text file of a folder as a
# snapshot of the file's name, and saves all snapshots to the daemon's store.
#   nightly.sh FOLDER
# A file NAME.txt has the text of a system message. Contexts that have not changed cost little. The
# script needs a running kvd with --store, and kvctl in PATH.
set -eu
[ $# = 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
for file in "$1"/*.txt; do
  [ -e "$file" ] || { echo "$0: no text files in $1" >&2; exit 1; }
  name=$(basename "$file" .txt)
  printf '%s: ' "$name"
  kvctl warm --chat --system "$(cat "$file")" --keep "$name" --force
done
kvctl save --all --force
