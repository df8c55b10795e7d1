package pod

import (
	"fmt"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// leftOut says what was left out, with as much of the list as a status takes.
func leftOut(left []podclient.LeftOut) string {
	lines := make([]string, len(left))
	for i, l := range left {
		lines[i] = l.String()
	}
	return fmt.Sprintf("%d left out: %s", len(left), strings.Join(lines, "; "))
}
