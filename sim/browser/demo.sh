# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0
#
# demo.sh: runs of the demo to take pictures of. Sourced by pictures.sh and dashboards.sh, from the top of the repository.
log=$(mktemp)
demo=

stop() {
  [[ -z $demo ]] || { kill -INT "$demo" && wait "$demo"; } 2>/dev/null || true
  demo=
}
trap 'stop; rm -f "$log"' EXIT

# start begins a run that stays up after the page.
start() {
  bin/culprit-demo --stay "$@" >"$log" 2>&1 &
  demo=$!
}

# until_said waits for what the demo prints.
until_said() {
  until grep -q "$1" "$log"; do
    kill -0 "$demo" 2>/dev/null || { cat "$log" >&2; echo "the demo ended" >&2; exit 1; }
    sleep 0.2
  done
}

# address gives where a program of the demo answers.
address() { sed -n "s/^ *$1  *\(http[^ ]*\).*/\1/p" "$log"; }
