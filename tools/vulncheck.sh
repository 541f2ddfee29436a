#!/usr/bin/env bash
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0

# Looks the code that the programs can reach up in Go's vulnerability database. Ends with 1 when something is known, and with 2 when
# it could not look: that is no good news.
set -uo pipefail
cd "$(dirname "$0")/.."

database=${GOVULNDB:-https://vuln.go.dev}
go run ./tools/ci get govulncheck || exit 2
govulncheck=$PWD/bin/tools/govulncheck
log=$(mktemp)
trap 'rm -f "$log"' EXIT

for module in . sim/scorecard; do
  "$govulncheck" -C "$module" -db "$database" ./... >"$log" 2>&1
  status=$?
  case $status in
    0) printf 'vulncheck: %s: nothing known\n' "$module" ;;
    3)
      cat "$log"
      printf 'vulncheck: %s: vulnerabilities are known, see above\n' "$module" >&2
      found=1
      ;;
    *)
      cat "$log" >&2
      if grep -qE 'fetching vulnerabilities|dial tcp|no such host|vuln.*(timeout|refused)' "$log"; then
        printf 'vulncheck: NOT CHECKED: the database %s cannot be reached. GOVULNDB=file:///path names a copy.\n' "$database" >&2
      else
        printf 'vulncheck: NOT CHECKED: govulncheck ended with %s on %s\n' "$status" "$module" >&2
      fi
      exit 2
      ;;
  esac
done
exit "${found:-0}"
