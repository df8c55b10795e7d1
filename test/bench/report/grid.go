package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Grid is a table of many columns, printed as Markdown so that it can go into a document.
type Grid struct {
	Title  string
	Header []string
	Rows   [][]string
}

// Add appends a row. Cells that are missing are empty.
func (g *Grid) Add(cells ...string) { g.Rows = append(g.Rows, cells) }

// Print writes the grid with its columns below each other.
func (g *Grid) Print(to io.Writer) {
	widths := make([]int, len(g.Header))
	for _, row := range append([][]string{g.Header}, g.Rows...) {
		for i := range widths {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell(row, i)))
		}
	}
	fmt.Fprintf(to, "\n%s\n\n", g.Title)
	printRow(to, g.Header, widths)
	for _, w := range widths {
		fmt.Fprintf(to, "| %s ", strings.Repeat("-", max(3, w)))
	}
	fmt.Fprintln(to, "|")
	for _, row := range g.Rows {
		printRow(to, row, widths)
	}
}

func cell(row []string, i int) string {
	if i < len(row) {
		return row[i]
	}
	return ""
}

func printRow(to io.Writer, row []string, widths []int) {
	for i, w := range widths {
		fmt.Fprintf(to, "| %-*s ", max(3, w), cell(row, i))
	}
	fmt.Fprintln(to, "|")
}
