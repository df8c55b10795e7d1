package probe_test

import (
	"database/sql"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/probe"
	"github.com/alx-ke/nairobi-mysql-operator/internal/settings"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// mostValues is how many values an enumeration may have, at least.
const mostValues = 10

// extremes are the values of a variable that are furthest from each other, or all that it has, as SQL.
func extremes(fact settings.Fact, is string) []string {
	switch fact.Type {
	case "boolean":
		return []string{"OFF", "ON"}
	case "integer", "numeric":
		values := []string{fact.Lowest, fact.Highest}
		if n, err := strconv.ParseFloat(fact.Lowest, 64); err == nil && fact.Type == "integer" {
			values = append(values, strconv.FormatFloat(n+5, 'f', 0, 64))
		}
		return slices.DeleteFunc(values, func(v string) bool { return v == "" })
	case "enumeration":
		var values []string
		for i := range mostValues {
			values = append(values, strconv.Itoa(i))
		}
		return values
	case "set":
		if flags := strings.Split(is, ","); strings.Contains(is, "=") {
			for i, flag := range flags {
				name, value, _ := strings.Cut(flag, "=")
				flags[i] = name + map[string]string{"on": "=off", "off": "=on"}[value]
			}
			return []string{"'" + strings.Join(flags, ",") + "'"}
		}
	case "string":
		switch {
		case strings.HasPrefix(fact.Name, "character_set_"):
			return []string{"utf32", "latin1", "binary", "swe7"}
		case strings.HasPrefix(fact.Name, "collation_"):
			return []string{"utf8mb4_bin", "utf8mb4_tr_0900_ai_ci"}
		case fact.Name == "lc_messages", fact.Name == "lc_time_names":
			return []string{"de_DE", "ja_JP"}
		}
	}
	return nil
}

// TestNoSettingHoldsOffTheOperator gives each variable that a session takes from a global value, and that spec.mysqld takes, its extremes:
// the operator reads the same of a primary and of a replica, and writes its heartbeat.
func TestNoSettingHoldsOffTheOperator(t *testing.T) {
	w, _ := mysqltest.Settle(t, mysqltest.NewPool(t, nil))
	ctx := t.Context()
	db, replica := mysqltest.Root(t, w.Servers[0]), mysqltest.Root(t, w.Servers[1])
	target := probe.Target{Address: w.Servers[0].Address(), ServerName: w.Servers[0].DNSName(), Identity: w.Identity()}
	// read is what decisions are made on and no heartbeat changes.
	read := func() []any {
		var all []any
		pool := conn.NewPool(conn.Options{})
		defer pool.Close()
		for _, m := range w.Members(pool)[:2] {
			o := m.Observe(ctx)
			var replication mysql.Replication // by value, so that a failure shows it
			if o.Replication != nil {
				replication = *o.Replication
				replication.SourceSilence, replication.Retrieved, replication.LagSeconds = 0, "", nil
			}
			all = append(all, fmt.Sprint(o.Access, o.Reason, o.MembershipKnown, o.ServerUUID, o.ReadOnly, o.SuperReadOnly, o.SemiSync, o.Executed != "", o.Memory, o.Refusing),
				o.Membership, o.Replication != nil, replication)
		}
		return all
	}
	want, tried := read(), 0
	mysqltest.WaitFor(t, "replication is at rest", func() bool {
		last := want
		want = read()
		return reflect.DeepEqual(want, last)
	})
	series := settings.SeriesOf(mysqltest.Value(t, db, "SELECT VERSION()"))
	for _, name := range settings.Names(series) {
		fact, _ := settings.Facts(series, name)
		if d, _ := settings.Decide(name); d.Class != settings.Settable || fact.Scope != "session" || !fact.Dynamic {
			continue
		}
		is := mysqltest.Value(t, db, "SELECT @@GLOBAL."+name)
		for _, value := range extremes(fact, is) {
			set := "SET GLOBAL " + name + " = " + value
			if settings.Check(name, strings.Trim(value, "'")) != nil {
				continue
			}
			if _, err := db.ExecContext(ctx, set); err != nil {
				if fact.Type == "enumeration" {
					break // it has no more
				}
				continue
			}
			mysqltest.Exec(t, replica, set)
			tried++
			if have := read(); !reflect.DeepEqual(have, want) {
				t.Errorf("%s: read %v, want %v", set, have, want)
			}
			if failure := beat(target); failure != "" {
				t.Errorf("%s: %s", set, failure)
			}
		}
		for _, server := range []*sql.DB{db, replica} {
			if _, err := server.ExecContext(ctx, "SET GLOBAL "+name+" = DEFAULT"); err != nil {
				mysqltest.Exec(t, server, "SET GLOBAL "+name+" = ?", is)
			}
		}
	}
	if tried < 200 {
		t.Errorf("%d values", tried)
	}
}

// beat writes one heartbeat in a new session, and returns what stands against it.
func beat(target probe.Target) string {
	p := probe.NewProber(probe.ProberOptions{Interval: 50 * time.Millisecond, Timeout: mysqltest.Patience})
	defer p.Close()
	p.Set("uid", target)
	for deadline := time.Now().Add(mysqltest.Patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if s := p.Status("uid"); s.Err != "" || !s.LastSuccess.IsZero() {
			return s.Err
		}
	}
	return "no answer"
}
