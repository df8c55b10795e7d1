package load

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// split returns all statements, pieces put together, and how long the longest piece was.
func split(t *testing.T, r io.Reader, longest int) (statements []string, most int) {
	t.Helper()
	s := newSplitter(r, longest)
	open := false
	for {
		one, err := s.Next()
		if errors.Is(err, io.EOF) {
			if open {
				t.Error("the last statement does not end")
			}
			return statements, most
		}
		if err != nil {
			t.Fatal(err)
		}
		if one.First == open {
			t.Errorf("%q begins in the middle of another, or belongs to none", one.Text)
		}
		if one.First {
			statements = append(statements, "")
		}
		statements[len(statements)-1] += string(one.Text)
		open, most = !one.Last, max(most, len(one.Text))
	}
}

// TestSplitter splits what looks like the end of a statement and is none, however the stream comes and whatever it keeps.
func TestSplitter(t *testing.T) {
	want := []string{
		"/*!40101 SET NAMES utf8mb4 */;", "SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'a-1:1-5,\nb-2:1';",
		"CREATE TABLE `a;``;\n-- b` (\n  `c` int DEFAULT ';' COMMENT 'it''s \\'; -- no'\n);",
		"INSERT INTO `t` VALUES (1,'a;\\\\'),(2,'\\';-- /* '),(-3,'--\n;'),(4,''),(5,_binary '\\0\\n;');",
		"INSERT INTO `t` VALUES (1,'" + strings.Repeat("x;", 500) + "');", "UNLOCK TABLES;",
	}
	dump := "-- MySQL dump; it's `odd`\n--\n\n" + strings.Join(want, "\n--\n-- Table structure; for \"it\n--\n\n") + "\n-- Dump completed; '"
	for _, longest := range []int{16, 64, 300, 1 << 20} {
		for name, r := range map[string]io.Reader{"at once": strings.NewReader(dump), "by bytes": iotest.OneByteReader(strings.NewReader(dump)), "by halves": iotest.HalfReader(strings.NewReader(dump)), "with its end": iotest.DataErrReader(strings.NewReader(dump))} {
			got, most := split(t, r, longest)
			if !slices.Equal(got, want) {
				t.Errorf("%s, %d bytes: got %.400q", name, longest, got)
			}
			if most > longest {
				t.Errorf("%s: a piece of %d bytes, and %d are kept", name, most, longest)
			}
		}
	}
}

// TestSplitterOnChance: statements of every kind of byte that means something come out as they went in.
func TestSplitterOnChance(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	const odd = "';`\"\\-/*#! \n\tx"
	for range 2000 {
		var want []string
		for range r.IntN(6) {
			var b strings.Builder
			b.WriteString("INSERT")
			for range r.IntN(8) {
				quote := "'`\""[r.IntN(3)]
				b.WriteByte(quote)
				for range r.IntN(12) {
					switch c := odd[r.IntN(len(odd))]; {
					case c == quote:
						b.WriteString(strings.Repeat(string(c), 2))
					case c == '\\' && quote != '`':
						b.WriteString(`\` + string(odd[r.IntN(len(odd))]))
					default:
						b.WriteByte(c)
					}
				}
				b.WriteByte(quote)
				b.WriteString([]string{" ", ",", "\n", "-1", "/*!80000 "}[r.IntN(5)])
			}
			want = append(want, b.String()+";")
		}
		dump := strings.Join(want, []string{"\n", "", "\n-- it's;\n", "\n\n--\n"}[r.IntN(4)])
		if got, _ := split(t, iotest.HalfReader(strings.NewReader(dump)), 8+r.IntN(200)); !slices.Equal(got, want) {
			t.Fatalf("seed %d: got %q of %q", seed, got, want)
		}
	}
}

// TestSplitterGivesWhatDoesNotEnd, as the client runs it.
func TestSplitterGivesWhatDoesNotEnd(t *testing.T) {
	if got, _ := split(t, strings.NewReader("SET x;\nSELECT 1 -- it's"), 64); !slices.Equal(got, []string{"SET x;", "SELECT 1 -- it's"}) {
		t.Errorf("got %q", got)
	}
}

// TestSplitterKeepsTheReadersError: what is damaged must not look like an end.
func TestSplitterKeepsTheReadersError(t *testing.T) {
	damaged := errors.New("damaged")
	s := NewSplitter(io.MultiReader(strings.NewReader("SET x;\nINSERT INTO `t` VALUES (1"), iotest.ErrReader(damaged)))
	if one, err := s.Next(); err != nil || string(one.Text) != "SET x;" {
		t.Fatalf("got %q, %v", one.Text, err)
	}
	if one, err := s.Next(); !errors.Is(err, damaged) {
		t.Errorf("got %q, %v", one.Text, err)
	}
}

// TestSplitKeys leaves in a table what belongs to its making, and takes out what may come later.
func TestSplitKeys(t *testing.T) {
	const tail = ") ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4;"
	table := func(lines ...string) string {
		return "CREATE TABLE `t` (\n  " + strings.Join(lines, ",\n  ") + "\n" + tail
	}
	for name, row := range map[string]struct {
		create, without string
		keys            []string
	}{
		"the last lines":    {table("`a` int", "PRIMARY KEY (`a`)", "KEY `b` (`b`)", "KEY `c``d` (`c`(10) DESC,`e`) USING BTREE"), table("`a` int", "PRIMARY KEY (`a`)"), []string{"KEY `b` (`b`)", "KEY `c``d` (`c`(10) DESC,`e`) USING BTREE"}},
		"one among others":  {table("`a` int", "KEY `b` (`b`)", "FULLTEXT KEY `f` (`g`)", "CONSTRAINT `c` CHECK ((`a` > 0))"), table("`a` int", "FULLTEXT KEY `f` (`g`)", "CONSTRAINT `c` CHECK ((`a` > 0))"), []string{"KEY `b` (`b`)"}},
		"unique":            {create: table("`a` int", "UNIQUE KEY `b` (`b`)")},
		"of an expression":  {create: table("`a` int", "KEY `b` ((lower(`a`)))")},
		"with more to it":   {table("`a` int", "KEY `b` (`b`) COMMENT 'it''s \\, x'", "KEY `c` (`c`) /*!80000 INVISIBLE */"), table("`a` int"), []string{"KEY `b` (`b`) COMMENT 'it''s \\, x'", "KEY `c` (`c`) /*!80000 INVISIBLE */"}},
		"one that stays":    {table("`a` int", "KEY `b` (`b`)", "KEY `c` (`c`) WITH PARSER x", "KEY `d` (`d`)"), table("`a` int", "KEY `b` (`b`)", "KEY `c` (`c`) WITH PARSER x"), []string{"KEY `d` (`d`)"}},
		"of a counter":      {table("`a` int NOT NULL AUTO_INCREMENT", "`b` int", "KEY `a` (`a`)", "KEY `b` (`b`)"), table("`a` int NOT NULL AUTO_INCREMENT", "`b` int", "KEY `a` (`a`)"), []string{"KEY `b` (`b`)"}},
		"foreign keys":      {create: table("`a` int", "KEY `b` (`b`)", "CONSTRAINT `c` FOREIGN KEY (`b`) REFERENCES `p` (`id`)")},
		"a name with lines": {create: table("`a\n  KEY ```` (````),\n` int", "PRIMARY KEY (`a`)")},
		"another engine":    {create: strings.Replace(table("`a` int", "KEY `b` (`b`)"), "InnoDB", "MyISAM", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			if row.without == "" {
				row.without = row.create
			}
			without, keys := splitKeys(row.create)
			if without != row.without || !slices.Equal(keys, row.keys) {
				t.Errorf("got %s\nand %q", without, keys)
			}
		})
	}
}

func ExampleIdentifier() {
	name, rest, ok := Identifier([]byte("`a``b` VALUES"))
	fmt.Println(name, string(rest), ok)
	// Output: a`b  VALUES true
}
