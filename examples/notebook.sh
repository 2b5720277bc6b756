#!/bin/sh
# Publishes a context, asks two questions in forks of the context, and shows the daemon's sequences.
# The script needs a running kvd (KVD_SOCKET names its socket, if it is not the default) and kvctl
# in PATH.
set -eu
facts='The kite is green, kept by Felix in the harbour. The drum is red, kept by Tom in the mill.'
kvctl run -n 0 --keep notebook "<|system|>Answer from the notebook. $facts<|end|>"
kvctl run --from notebook --chat -t 0 'Where is the kite?'
kvctl run --from notebook --chat -t 0 'Who keeps the drum?'
kvctl ps
kvctl unpublish notebook
