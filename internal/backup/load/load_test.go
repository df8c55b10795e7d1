package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"
)

// server is one that remembers what it was asked to do, and in which order.
type server struct {
	mu       sync.Mutex
	given    strings.Builder // to the console, and not done
	done     []string
	sessions int
	// does is what a session's statement does; nil succeeds.
	does func(ctx context.Context, statement string) error
	// large are the large tables, apart by blanks; only one of that name when empty.
	large string
	// breaks ends the console in its next Sync.
	breaks error
}

func (s *server) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.given.Write(b)
}

func (s *server) Sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = append(s.done, strings.TrimSpace(s.given.String()))
	s.given.Reset()
	return s.breaks
}

func (s *server) open(context.Context) (Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions++
	return session{s}, nil
}

type session struct{ s *server }

func (s session) Run(ctx context.Context, database, statement string) error {
	if s.s.does != nil {
		if err := s.s.does(ctx, statement); err != nil {
			return err
		}
	}
	s.s.mu.Lock()
	defer s.s.mu.Unlock()
	s.s.done = append(s.s.done, database+": "+statement)
	return nil
}

func (s session) Close() {
	s.s.mu.Lock()
	defer s.s.mu.Unlock()
	s.s.sessions--
}

// play loads a dump, and returns what ended the context and what Run returned.
func (s *server) play(t *testing.T, dump io.Reader) (cause, err error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var building atomic.Int32
	err = Run(ctx, cancel, dump, Options{Console: s, Sessions: 3, Open: s.open, Large: func(_, name string) bool {
		return slices.Contains(strings.Fields(cmp.Or(s.large, "large")), name)
	}, Building: &building})
	if s.sessions != 0 || building.Load() != 0 {
		t.Errorf("%d sessions are open and %d build", s.sessions, building.Load())
	}
	return context.Cause(ctx), err
}

const header = "-- MySQL dump\nSET NAMES utf8mb4;\nCREATE DATABASE `d``b`;\nUSE `d``b`;\n"

// primary is the primary key of a table, which every one has whose name does not begin with "keyless".
func primary(name string) string {
	if strings.HasPrefix(name, "keyless") {
		return ""
	}
	return "  PRIMARY KEY (`a`),\n"
}

func section(name string, rows int, more string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "--\n-- Table\n--\n\nDROP TABLE IF EXISTS `%s`;\n/*!50503 SET character_set_client = utf8mb4 */;\nCREATE TABLE `%s` (\n  `a` int,\n%s  KEY `k` (`a`)%s\n) ENGINE=InnoDB;\n/*!40101 SET character_set_client = @saved_cs_client */;\nLOCK TABLES `%s` WRITE;\n/*!40000 ALTER TABLE `%s` DISABLE KEYS */;\n", name, name, primary(name), more, name, name)
	for i := range rows {
		fmt.Fprintf(&b, "INSERT INTO `%s` VALUES (%d);\n", name, i)
	}
	fmt.Fprintf(&b, "/*!40000 ALTER TABLE `%s` ENABLE KEYS */;\nUNLOCK TABLES;\n", name)
	return b.String()
}

func (s *server) at(t *testing.T, part string) int {
	t.Helper()
	i := slices.IndexFunc(s.done, func(done string) bool { return strings.Contains(done, part) })
	if i < 0 {
		t.Fatalf("%q was not done, but %q", part, s.done)
	}
	return i
}

// TestRun: rows come after their table and before its keys, sessions work at the same time, and nothing is locked.
func TestRun(t *testing.T) {
	s := &server{}
	var meet sync.WaitGroup
	meet.Add(3)
	s.does = func(_ context.Context, statement string) error {
		if strings.HasPrefix(statement, "INSERT INTO `small`") {
			meet.Done()
			meet.Wait() // for the two others
		}
		if strings.HasPrefix(statement, "INSERT INTO `large`") {
			time.Sleep(20 * time.Millisecond)
		}
		return nil
	}
	dump := header + section("small", 3, "") + section("large", 4, "") + section("child", 1, ",\n  CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `other` (`a`)") + "SET x=1;\n"
	if cause, err := s.play(t, strings.NewReader(dump)); cause != nil || err != nil {
		t.Fatal(cause, err)
	}
	order := []int{
		s.at(t, "SET NAMES"), s.at(t, "CREATE TABLE `small`"), s.at(t, "CREATE TABLE `large`"), s.at(t, "`large` VALUES (3)"),
		s.at(t, "d`b: ALTER TABLE `large` ADD KEY `k` (`a`)"), s.at(t, "CREATE TABLE `child`"), s.at(t, "INSERT INTO `child`"), s.at(t, "SET x=1;"),
	}
	if !slices.IsSorted(order) || s.at(t, "CREATE TABLE `small`") > s.at(t, "INSERT INTO `small`") {
		t.Errorf("it was done as %q", s.done)
	}
	rows := 0
	for _, done := range s.done {
		rows += strings.Count(done, "INSERT INTO")
		if strings.Contains(done, "LOCK TABLES") || strings.Contains(done, "DISABLE KEYS") || strings.Contains(done, "KEY `k` (`a`)\n) ENGINE=InnoDB") && strings.Contains(done, "TABLE `large`") {
			t.Errorf("it did %q", done)
		}
	}
	if rows != 8 {
		t.Errorf("%d statements with rows", rows)
	}
}

// TestATableThatIsReferredToKeepsItsKeys: the foreign key of an earlier one may need them.
func TestATableThatIsReferredToKeepsItsKeys(t *testing.T) {
	s := &server{}
	if cause, err := s.play(t, strings.NewReader(header+section("child", 1, ",\n  CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `large` (`a`)")+section("large", 1, ""))); cause != nil || err != nil {
		t.Fatal(cause, err)
	}
	if made := s.done[s.at(t, "CREATE TABLE `large`")]; !strings.Contains(made, "CREATE TABLE `large` (\n  `a` int,\n  PRIMARY KEY (`a`),\n  KEY `k` (`a`)") {
		t.Errorf("it was made by %q", made)
	}
}

// TestALargeTableRefersToALaterOne: both are large, and the one that is referred to keeps its keys.
func TestALargeTableRefersToALaterOne(t *testing.T) {
	s := &server{large: "large child"}
	if cause, err := s.play(t, strings.NewReader(header+section("child", 1, ",\n  CONSTRAINT `f` FOREIGN KEY (`a`) REFERENCES `large` (`a`)")+section("large", 1, ""))); cause != nil || err != nil {
		t.Fatal(cause, err)
	}
	if made := s.done[s.at(t, "CREATE TABLE `large`")]; !strings.Contains(made, "KEY `k` (`a`)") {
		t.Errorf("it was made by %q", made)
	}
}

// TestRowsOfATableWithoutAPrimaryKey are inserted in the order of the dump, also one that goes to the console; the table after it is not.
func TestRowsOfATableWithoutAPrimaryKey(t *testing.T) {
	s := &server{}
	var meet sync.WaitGroup
	meet.Add(3)
	s.does = func(_ context.Context, statement string) error {
		switch {
		case strings.HasPrefix(statement, "INSERT INTO `keyless`") && strings.Contains(statement, "(0)"):
			time.Sleep(50 * time.Millisecond)
		case strings.HasPrefix(statement, "INSERT INTO `small`"):
			meet.Done()
			meet.Wait() // for the two others
		}
		return nil
	}
	long := "INSERT INTO `keyless` VALUES (3,'" + strings.Repeat("x", 2*longest) + "');\nINSERT INTO `keyless` VALUES (4);\n"
	keyless := strings.Replace(section("keyless", 3, ""), "/*!40000 ALTER TABLE `keyless` ENABLE", long+"/*!40000 ALTER TABLE `keyless` ENABLE", 1)
	if cause, err := s.play(t, strings.NewReader(header+keyless+section("small", 3, ""))); cause != nil || err != nil {
		t.Fatal(cause, err)
	}
	var order []int
	for n := range 5 {
		order = append(order, s.at(t, fmt.Sprintf("INSERT INTO `keyless` VALUES (%d", n)))
	}
	if !slices.IsSorted(order) {
		t.Errorf("the rows were inserted in the order %v", order)
	}
}

// TestALongRow goes to the console, in pieces, because a session would keep all of it.
func TestALongRow(t *testing.T) {
	s := &server{}
	long := "INSERT INTO `small` VALUES (7,'" + strings.Repeat("x", 2*longest) + "',-0e0);"
	written := strings.Replace(long, "-0e0", "-0", 1)
	if cause, err := s.play(t, strings.NewReader(header+section("small", 1, "")+written+"\n"+section("other", 1, ""))); cause != nil || err != nil {
		t.Fatal(cause, err)
	}
	if got := s.done[s.at(t, "(7,'")]; !strings.HasPrefix(got, long) || strings.Contains(got, "d`b: ") {
		t.Errorf("it was done as %.80q", got)
	}
}

// TestExactZeros: a negative zero keeps its sign, and text is what it was.
func TestExactZeros(t *testing.T) {
	for text, want := range map[string]string{
		"INSERT INTO `t` VALUES (1,-0,'-0,'),(-0,NULL),(2,-0);":                 "INSERT INTO `t` VALUES (1,-0e0,'-0,'),(-0e0,NULL),(2,-0e0);",
		"INSERT INTO `(-0,` (`,-0,`) VALUES (-0.5,-01,'it\\',-0,','''-0,',-0);": "INSERT INTO `(-0,` (`,-0,`) VALUES (-0.5,-01,'it\\',-0,','''-0,',-0e0);",
		"INSERT INTO `t` VALUES (0,1-0);":                                       "INSERT INTO `t` VALUES (0,1-0);",
		"INSERT INTO `t` VALUES ('-0,":                                          "INSERT INTO `t` VALUES ('-0,",
	} {
		if got := exactZeros([]byte(text)); got != want {
			t.Errorf("%s became %s", text, got)
		}
		for _, size := range []int{1, 2, 3, 7} {
			var z zeros
			var got strings.Builder
			for piece := range slices.Chunk([]byte(text), size) {
				got.Write(z.exact(piece))
			}
			if got.String() != want {
				t.Errorf("%s in pieces of %d became %s", text, size, got.String())
			}
		}
	}
}

// TestAFailure names the table and the statement, ends the other sessions in the middle of theirs, and loads nothing more.
func TestAFailure(t *testing.T) {
	s := &server{}
	refused := errors.New("refused")
	s.does = func(ctx context.Context, statement string) error {
		if strings.Contains(statement, "`bad` VALUES (1)") {
			return refused
		}
		if strings.Contains(statement, "`good`") {
			<-ctx.Done()
			return ctx.Err()
		}
		time.Sleep(time.Millisecond)
		return nil
	}
	cause, err := s.play(t, strings.NewReader(header+section("good", 1, "")+section("bad", 200, "")+section("never", 1, "")))
	if !errors.Is(cause, refused) || err == nil || !strings.Contains(cause.Error(), "table d`b.bad (INSERT INTO `bad` VALUES (1); …)") {
		t.Errorf("got %v, and %v", cause, err)
	}
	if slices.ContainsFunc(s.done, func(done string) bool { return strings.Contains(done, "never") }) {
		t.Error("it went on")
	}
}

// TestFailuresFromElsewhere: the console's say where it was; the stream's are as they are, and no session is blamed.
func TestFailuresFromElsewhere(t *testing.T) {
	ended := errors.New("ended")
	s := &server{breaks: ended}
	var failed *ConsoleError
	if cause, err := s.play(t, strings.NewReader(header+section("t", 1, ""))); cause != nil || !errors.As(err, &failed) || !errors.Is(err, ended) || failed.Table != "d`b.t" {
		t.Errorf("got %v, and %v", cause, err)
	}
	s = &server{does: func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }}
	damaged := errors.New("damaged")
	if cause, err := s.play(t, io.MultiReader(strings.NewReader(header+section("t", 2, "")), iotest.ErrReader(damaged))); cause != nil || !errors.Is(err, damaged) {
		t.Errorf("got %v, and %v", cause, err)
	}
}
