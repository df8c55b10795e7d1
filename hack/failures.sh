#!/usr/bin/env bash
# Prints what failed in a transcript of Go tests: each test with the first and last lines that it printed.
#
#   hack/failures.sh TRANSCRIPT
set -euo pipefail

awk -v first=4 -v last=14 '
  function finish(  i) {
    if (!open) {
      return
    }
    for (i = 1; i <= count; i++) {
      if (i <= first || i > count - last) {
        print line[i]
      } else if (i == first + 1) {
        printf "    ... %d more lines\n", count - first - last
      }
    }
    open = count = 0
  }
  /^[[:space:]]*--- FAIL: |^=== FAIL: |^panic: |^WARNING: DATA RACE|^\*\*\* Test killed/ { finish(); open = 1 }
  /^(=== |--- |DONE |PASS|ok  |FAIL|==)/ && !/FAIL: / { finish() }
  open { line[++count] = $0 }
  END { finish() }
' "${1?usage: hack/failures.sh TRANSCRIPT}"
