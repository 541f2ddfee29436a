#!/bin/sh
# Copyright 2026 The Culprit Authors
# SPDX-License-Identifier: Apache-2.0

# Compares the tables of trace-fields.md with what the layout program says.
#
#   check_format_doc.sh LAYOUT_PROGRAM DOCUMENT

set -eu
"$1" | awk '
  $1 == "struct" { name = $2; print "### " $2 ": " $3 " bytes" }
  $1 == "field" { split($2, part, "."); print "| `" part[2] "` | " $3 " | " $4 " |" }
' > "$1.want"
awk '
  /^### [a-z]+: [0-9]+ bytes$/ { print }
  /^\| `[a-z_0-9]+` \| [0-9]+ \| [0-9]+ \| / { print $1, $2, $3, $4, $5, $6, $7 }
' "$2" > "$1.got"
# Structs come in another order in the document: compare them as sets of "struct field" lines.
for f in want got; do
  awk '/^###/ { name = $2 } { print name, $0 }' "$1.$f" | sort > "$1.$f.sorted"
done
if diff "$1.want.sorted" "$1.got.sorted"; then
  echo "trace-fields.md: 1 passed, 0 failed"
else
  echo "trace-fields.md: 0 passed, 1 failed (< compiler, > document)"
  exit 1
fi
