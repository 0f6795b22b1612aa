# Eight cards in a file, on the node itself or below the folder `host`. Their device nodes have the number of
# /dev/random, so that they can be opened. A process that keeps it open is reported on the card. `targets` lists the
# targets of the cards' kernels, in turn: "cuda:75 hip:gfx90a". Without it, the targets are unknown.
host=${host-}
set -- ${targets-}
mkdir -p "$host/etc/accelkit"
{
  echo '{"cards": ['
  for index in 0 1 2 3 4 5 6 7; do
    [ "$index" = 0 ] || echo ,
    target=${1-}
    # Move the first target to the end.
    [ $# = 0 ] || { shift; set -- "$@" "$target"; }
    printf '{"id": "sim-%d", "model": "sim-16g", "memory_bytes": 17179869184, "index": %d, "numa": %d, "target": "%s"}' \
      "$index" "$index" $((index / 4)) "$target"
    for folder in /dev "$host/dev"; do
      [ -e "$folder/accelkit$index" ] || mknod -m 0666 "$folder/accelkit$index" c 1 8
    done
  done
  echo ']}'
} > "$host/etc/accelkit/simulated-cards.json"
