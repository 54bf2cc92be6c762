#!/usr/bin/env bash
# Draws the output of a command as an SVG for README and book. It follows the reader's light or dark theme.
#
#   COMMAND | scripts/terminal-svg.sh 'COMMAND as shown' > picture.svg
set -euo pipefail

LC_ALL=C.UTF-8 awk -v command="${1:?usage: COMMAND | scripts/terminal-svg.sh 'COMMAND as shown'}" '
  function escaped(text) { gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text); gsub(/>/, "\\&gt;", text); return text }
  { line[NR] = $0; gsub(/[\200-\277]/, "", $0); if (length($0) > width) width = length($0) }
  END {
    columns = width > length(command) + 2 ? width : length(command) + 2
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\">\n", columns * 7.8 + 40, (NR + 2) * 18 + 36
    print "<title>" escaped(command) "</title>"
    print "<style>"
    print "  rect { fill: #f6f8fa; stroke: #d0d7de }"
    print "  text { fill: #1f2328; font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, \"DejaVu Sans Mono\", monospace; white-space: pre }"
    print "  .command { font-weight: bold }"
    print "  @media (prefers-color-scheme: dark) { rect { fill: #0d1117; stroke: #30363d } text { fill: #e6edf3 } }"
    print "</style>"
    print "<rect x=\"0.5\" y=\"0.5\" width=\"" columns * 7.8 + 39 "\" height=\"" (NR + 2) * 18 + 35 "\" rx=\"6\"/>"
    print "<text class=\"command\" x=\"20\" y=\"32\" xml:space=\"preserve\">$ " escaped(command) "</text>"
    for (i = 1; i <= NR; i++) printf "<text x=\"20\" y=\"%d\" xml:space=\"preserve\">%s</text>\n", (i + 1) * 18 + 32, escaped(line[i])
    print "</svg>"
  }'
