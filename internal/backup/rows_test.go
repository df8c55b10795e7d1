package backup

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

const dumpHead = `-- MySQL dump 10.13  Distrib 9.7.4, for Linux (x86_64)
SET @@SESSION.SQL_LOG_BIN= 0;

SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ '68b6e07c-e5ca-11f1-a9e9-02fc00000001:1-3,
78b6e07c-e5ca-11f1-a9e9-02fc00000001:5';

-- CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE='binlog.000001', SOURCE_LOG_POS=822;
CREATE DATABASE /*!32312 IF NOT EXISTS*/ ` + "`d`" + `;

USE ` + "`d`" + `;
`

const dumpTail = "\n-- Dump completed on 2026-11-21 16:42:03\n"

func TestRowsAreCountedWhateverTheyHold(t *testing.T) {
	for name, row := range map[string]struct {
		body string
		want string
	}{
		"plain":                   {"INSERT INTO `t` VALUES (1,'a'),(2,NULL);\n", "d.t=2"},
		"several statements":      {"INSERT INTO `t` VALUES (1),(2);\nINSERT INTO `t` VALUES (3);\n", "d.t=3"},
		"awkward strings":         {`INSERT INTO ` + "`t`" + ` VALUES (1,'),('),(2,'\'),('),(3,'\\'),(4,'a;\n'),(5,_binary '\0(\'');` + "\n", "d.t=5"},
		"numbers":                 {"INSERT INTO `t` VALUES (1,-2.5e10,0x622827292C28),(1,0,0xFF);\n", "d.t=2"},
		"columns":                 {"INSERT INTO `t` (`a`, `VALUES (`) VALUES (1,2);\n", "d.t=1"},
		"thousands of columns":    {"INSERT INTO `t` (" + strings.Repeat("`a``) VALUES (1),(`, ", 4000) + "`z`) VALUES (1),(2);\nINSERT INTO `t` (`a`) VALUES (3);\n", "d.t=3"},
		"a backquote":             {"INSERT INTO `a``b` VALUES (1);\n", "d.a`b=1"},
		"a line break":            {"INSERT INTO `a\nb` VALUES (1),(2);\n", "d.a\nb=2"},
		"another database":        {"INSERT INTO `t` VALUES (1);\nUSE `e`;\nINSERT INTO `t` VALUES (1),(2);\n", "d.t=1 e.t=2"},
		"a database's line break": {"USE `we``ird\n'n\"ame;`;\nINSERT INTO `t` VALUES (1),(2);\n", "we`ird\n'n\"ame;.t=2"},
		"a table's definition":    {"CREATE TABLE `t` (\n  `a;\nINSERT INTO ``u`` VALUES (1);` int DEFAULT ';\\';\nINSERT INTO `v` VALUES (1);'\n) COMMENT='it''s;';\nINSERT INTO `t` VALUES (1);\n", "d.t=1"},
		"comments":                {"--\n-- Dumping data for table `t`\n--\n\n/*!40000 ALTER TABLE `t` DISABLE KEYS */;\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := dumpHead + row.body + dumpTail
			// However the stream is cut into pieces.
			for _, size := range []int{len(text), 1, 2, 7, 64} {
				d := newDumpReader()
				for rest := text; rest != ""; {
					n := min(size, len(rest))
					if _, err := d.Write([]byte(rest[:n])); err != nil {
						t.Fatalf("pieces of %d: %v", size, err)
					}
					rest = rest[n:]
				}
				if err := d.end(); err != nil {
					t.Fatalf("pieces of %d: %v", size, err)
				}
				var got []string
				for _, r := range d.tables {
					got = append(got, fmt.Sprintf("%s.%s=%d", r.Database, r.Table, r.Rows))
				}
				if strings.Join(got, " ") != row.want {
					t.Fatalf("pieces of %d: counted %q, want %q", size, got, row.want)
				}
				if d.gtidSet != "68b6e07c-e5ca-11f1-a9e9-02fc00000001:1-3,78b6e07c-e5ca-11f1-a9e9-02fc00000001:5" || d.file != "binlog.000001" || d.position != 822 {
					t.Fatalf("it read %q %q %d", d.gtidSet, d.file, d.position)
				}
			}
		})
	}
}

// TestStatementsThatNoServerTakes are found by their length, without the line that they are in.
func TestStatementsThatNoServerTakes(t *testing.T) {
	fits, long := "INSERT INTO `t` (`a`) VALUES (0x"+strings.Repeat("ab", 30)+");", "INSERT INTO `u` VALUES ('"+strings.Repeat("\\'", 40)+"');"
	text := dumpHead + fits + "\n" + long + "\n" + fits + "\n" + dumpTail
	for _, size := range []int{len(text), 1, 7} {
		d := newDumpReader()
		d.row.length.limit = int64(len(long)) - 1
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if _, err := d.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if want := (longRow{"d", "u", int64(len(long))}); len(d.row.length.found) != 1 || d.row.length.found[0] != want {
			t.Errorf("pieces of %d: found were %v, not %v", size, d.row.length.found, want)
		}
	}
}

// TestRandomRows escapes random strings as mysqldump does and counts them, cut at random.
func TestRandomRows(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	const alphabet = `'"\();,` + "`\n\r\x00\x1aab "
	escape := strings.NewReplacer("\x00", `\0`, "\n", `\n`, "\r", `\r`, `\`, `\\`, `'`, `\'`, `"`, `\"`, "\x1a", `\Z`)
	for range 300 {
		rows := 1 + r.IntN(20)
		var b strings.Builder
		b.WriteString(dumpHead + "INSERT INTO `t` VALUES ")
		for i := range rows {
			if i > 0 {
				b.WriteByte(',')
			}
			var text strings.Builder
			for range r.IntN(30) << r.IntN(6) {
				text.WriteByte(alphabet[r.IntN(len(alphabet))])
			}
			fmt.Fprintf(&b, "(%d,'%s')", i, escape.Replace(text.String()))
		}
		b.WriteString(";\n" + dumpTail)
		d := newDumpReader()
		for rest := b.String(); rest != ""; {
			n := min(1+r.IntN(50)<<r.IntN(7), len(rest))
			if _, err := d.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := d.end(); err != nil || len(d.tables) != 1 || d.tables[0].Rows != uint64(rows) {
			t.Fatalf("%v, counted %+v, want %d in\n%s", err, d.tables, rows, b.String())
		}
	}
}

func TestAnUnfinishedDumpIsNone(t *testing.T) {
	whole := dumpHead + "INSERT INTO `t` VALUES (1,'a'),(2,'b');\n" + dumpTail
	for name, text := range map[string]string{
		"nothing":                "",
		"cut in a string":        dumpHead + "INSERT INTO `t` VALUES (1,'a",
		"cut after a statement":  dumpHead + "INSERT INTO `t` VALUES (1,'a');\n",
		"cut in the last line":   strings.TrimSuffix(whole, " completed on 2026-11-21 16:42:03\n"),
		"without the position":   "USE `d`;\n" + dumpTail,
		"something after it":     whole + "mysqldump: Error 2013: Lost connection\n",
		"an INSERT of another":   dumpHead + "INSERT INTO `t` SELECT * FROM `u`" + strings.Repeat(" ", 2000) + ";\n" + dumpTail,
		"the end inside a table": dumpHead + "CREATE TABLE `t` (\n  `id` int DEFAULT ';\n-- Dump completed\n",
		"the end inside a value": dumpHead + "INSERT INTO `t` VALUES (1,'\n-- Dump completed\n",
	} {
		t.Run(name, func(t *testing.T) {
			d := newDumpReader()
			_, err := d.Write([]byte(text))
			if err == nil {
				err = d.end()
			}
			if !errors.Is(err, ErrIncomplete) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

// TestTheTablesOfADump: what it makes and how, whatever that is called, and not what a value says.
func TestTheTablesOfADump(t *testing.T) {
	text := dumpHead + "CREATE TABLE `t` (\n  `id` int\n);\nINSERT INTO `t` VALUES (1,'\\nCREATE TABLE `no` (');\nCREATE TABLE `a``b` (\n);\nUSE `e`;\nCREATE TABLE `c\nd` (\n);\n" +
		"/*!50001 CREATE VIEW `v` AS SELECT 1*/;\n" + dumpTail
	for _, size := range []int{len(text), 1, 7} {
		d := newDumpReader()
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if _, err := d.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		want := []createdTable{
			{"d", "t", definitionSum("CREATE TABLE `t` (\n  `id` int\n)"), ""}, {"d", "a`b", definitionSum("CREATE TABLE `a``b` (\n)"), ""}, {"e", "c\nd", definitionSum("CREATE TABLE `c\nd` (\n)"), ""},
		}
		if err := d.end(); err != nil || !slices.Equal(d.created, want) {
			t.Errorf("pieces of %d: %+v, %v", size, d.created, err)
		}
	}
}

// BenchmarkRows says how much of a core counting takes at the speed of a dump, also of long values full of backslashes.
func BenchmarkRows(b *testing.B) {
	for name, row := range map[string]string{
		"short values": "(123456,'" + strings.Repeat("some text ", 12) + "',1.5,NULL),",
		"documents":    "(123456,'" + strings.Repeat(`{\"some\": \"text\"}, `, 5000) + "',1.5,NULL),",
	} {
		b.Run(name, func(b *testing.B) {
			text := []byte(strings.Repeat(row, 1<<20/len(row)))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				d := newDumpReader()
				_, _ = d.Write([]byte(dumpHead + "INSERT INTO `t` VALUES "))
				_, _ = d.Write(text)
			}
		})
	}
}
