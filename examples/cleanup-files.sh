#!/bin/sh
# `accelkit examples clean` under the name that GKM's script has.
program=$(dirname "$0")/../.venv/bin/accelkit
[ -x "$program" ] || program=accelkit
exec "$program" examples clean "$@"
