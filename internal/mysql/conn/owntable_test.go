package conn

import (
	"database/sql"
	"testing"
)

// TestWhatMakesNoDifferenceToATable are the defaults that it was made with, and the names of its constraints.
func TestWhatMakesNoDifferenceToATable(t *testing.T) {
	for printed, want := range map[string]string{
		") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci":                            ") ENGINE=InnoDB",
		") ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_bin ENCRYPTION='N'":                      ") ENGINE=InnoDB",
		") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci /*!80016 ENCRYPTION='Y' */": ") ENGINE=InnoDB",
		") ENGINE=InnoDB DEFAULT CHARSET=latin1 ROW_FORMAT=COMPRESSED":                                  ") ENGINE=InnoDB ROW_FORMAT=COMPRESSED",
		"`gtids` mediumtext CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL":                      "`gtids` mediumtext NOT NULL",
		"`leader` varchar(64) COLLATE utf8mb4_bin NOT NULL":                                             "`leader` varchar(64) NOT NULL",
		"CONSTRAINT `one``row` CHECK ((`id` = 1))":                                                      "CHECK ((`id` = 1))",
		"CONSTRAINT `membership_ibfk_1` FOREIGN KEY (`epoch`) REFERENCES `other` (`epoch`)":             "CONSTRAINT `membership_ibfk_1` FOREIGN KEY (`epoch`) REFERENCES `other` (`epoch`)",
	} {
		if got := plainLine(printed); got != want {
			t.Errorf("%s: %s", printed, got)
		}
	}
}

// TestOptionalColumns are those that a release which does not know them may leave out.
func TestOptionalColumns(t *testing.T) {
	null := sql.NullString{}
	has := func(s string) sql.NullString { return sql.NullString{String: s, Valid: true} }
	for _, row := range []struct {
		what     string
		field    columnField
		optional bool
	}{
		{"it may be NULL", columnField{null: "YES", value: null}, true},
		{"it is of a temporary table", columnField{null: "YES", value: null, extra: has("NULL")}, true},
		{"it has no default", columnField{null: "NO", value: null}, false},
		{"it has a default", columnField{null: "NO", value: has("a`b")}, true},
		{"its default is the time", columnField{null: "NO", value: has("CURRENT_TIMESTAMP(6)"), extra: has("DEFAULT_GENERATED on update CURRENT_TIMESTAMP(6)")}, true},
		{"its default is an expression", columnField{null: "YES", value: has("json_array()"), extra: has("DEFAULT_GENERATED")}, true},
		{"its default depends on a column", columnField{null: "NO", value: has("(`id` - 1)"), extra: has("DEFAULT_GENERATED")}, false},
		{"it is generated", columnField{null: "YES", value: null, extra: has("VIRTUAL GENERATED")}, false},
		{"it is generated and stored", columnField{null: "YES", value: null, extra: has("STORED GENERATED")}, false},
		{"it counts", columnField{null: "NO", value: has("0"), extra: has("auto_increment")}, false},
	} {
		if got := row.field.optional(); got != row.optional {
			t.Errorf("%s: %t", row.what, got)
		}
	}
}
