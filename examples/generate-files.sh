#!/bin/sh
# `accelkit examples generate` under the name that GKM's script has. Files come into output/ of the current folder.
program=$(dirname "$0")/../.venv/bin/accelkit
[ -x "$program" ] || program=accelkit
exec "$program" examples generate "$@"
