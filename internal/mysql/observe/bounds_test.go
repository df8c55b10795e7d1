package observe

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// TestALongStatementIsNotKept: a client decides how long it is. It counts as a change, because what is harmless at its beginning may not
// be at its end.
func TestALongStatementIsNotKept(t *testing.T) {
	flush := "FLUSH STATUS"
	analyze := "ANALYZE TABLE t" + strings.Repeat(", t", longestStatement)
	for name, row := range map[string]struct {
		kind, info string
		kept       bool
		certain    bool
	}{
		"a short statement":       {"Query", flush, true, true},
		"one of the length":       {"Query", flush + strings.Repeat(" ", longestStatement-len(flush)), true, true},
		"a longer one":            {"Query", flush + strings.Repeat(" ", longestStatement-len(flush)+1), false, false},
		"a much longer one":       {"Query", analyze, false, false},
		"GTIDs are never cut off": {"Previous_gtids", strings.Repeat("3", 1<<20), true, false},
		"a client's text of rows": {"Rows_query", "# " + flush, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			info := keptInfo(row.kind, []byte(row.info))
			if (info != "") != row.kept || row.kept && info != row.info {
				t.Errorf("%d of %d bytes are kept", len(info), len(row.info))
			}
			search := logSearch{open: &mysql.LoggedTransaction{}}
			search.add(event{kind: row.kind, info: info})
			if _, certain := search.open.ChangesNothing(); certain != row.certain {
				t.Errorf("that it changes nothing is certain: %t", certain)
			}
		})
	}
}

// TestTextsOfReplicationAreShort: a server that is not MySQL says what it likes, and a filter lists any number of tables.
func TestTextsOfReplicationAreShort(t *testing.T) {
	long := sql.RawBytes(strings.Repeat("ü", 1<<20))
	row := replicaStatus{"Last_IO_Error": &long, "Last_SQL_Error": &long, "Replicate_Do_Table": &long}
	read := row.read()
	for what, text := range map[string]string{"the receiver's error": read.LastIOError, "the applier's error": read.LastSQLError, "what keeps it from connecting": read.ConnectError} {
		if len(text) > longestReplicationError || !strings.HasSuffix(text, "ü…") {
			t.Errorf("%s has %d bytes", what, len(text))
		}
	}
	if len(read.Filters) != 1 || len(read.Filters[0]) > len("Replicate_Do_Table is ")+longestFilter {
		t.Errorf("%d filters", len(read.Filters))
	}
}
