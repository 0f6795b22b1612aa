#!/bin/sh
# Runs `accelkit examples clean` under the name of GKM's script. As in GKM, all paths are relative to the folder of the
# script.
name=$0
cd "$(dirname "$0")" || exit
program=../.venv/bin/accelkit
[ -x "$program" ] || program=accelkit
case " $* " in
*" --help "*) "$program" examples clean --help | sed "s|accelkit examples clean|$name|" ;;
*) exec "$program" examples clean "$@" ;;
esac
