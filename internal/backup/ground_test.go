package backup

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// limits are what a restore changes for a while.
const limits = "SELECT @@GLOBAL.max_allowed_packet, @@GLOBAL.event_scheduler, @@GLOBAL.mandatory_roles"

// TestARowOfManyMegabytes: in the dump its value is twice as long, and longer than the server's max_allowed_packet. It is
// put back afterwards, also where the first attempt was cut off. So are the mandatory roles, which could not be dropped for the second.
func TestARowOfManyMegabytes(t *testing.T) {
	w := theWorld(t)
	sql(t, w.primary, "CREATE DATABASE large; CREATE TABLE large.t (id INT PRIMARY KEY, b LONGBLOB); INSERT INTO large.t VALUES (1, REPEAT(0x00FF2701, 10 << 20))")
	defer func() { sql(t, w.primary, "DROP DATABASE large"); w.caughtUp(t) }()
	o := w.options(t, w.primary)
	_, err := patiently(t, o)
	must(t, err)
	target := w.fresh(t)
	r := w.restore(t, o, target)
	sql(t, target, "SET GLOBAL mandatory_roles = '`reader`@`%`, other'")
	before := sql(t, target, limits)
	if before != "67108864\tON\t`reader`@`%`, other" {
		t.Fatalf("the server begins with %s: this tries nothing", before)
	}
	cut := r
	cut.Program = func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
		return target.Program(ctx, "sh", append([]string{"-c", cutOff, name}, arguments...)...)
	}
	if _, err := Restore(t.Context(), cut); !errors.Is(err, ErrLoad) {
		t.Fatalf("it was not cut off: %v", err)
	}
	if got := sql(t, target, limits); got != "1073741824\tOFF" {
		t.Errorf("cut off it has %s", got)
	}
	sql(t, target, "SET GLOBAL mandatory_roles = '`reader`@`%`, other'") // as after a restart
	_, err = Restore(t.Context(), r)
	must(t, err)
	const sum = "SELECT LENGTH(b), SHA2(b, 256) FROM large.t"
	if got, want := sql(t, target, sum), sql(t, w.primary, sum); got != want || !strings.HasPrefix(got, "41943040\t") {
		t.Errorf("restored is %s of %s", got, want)
	}
	if got := sql(t, target, limits); got != before {
		t.Errorf("it has %s instead of %s", got, before)
	}
	// Done, and cut off before it was put back.
	sql(t, target, "SET GLOBAL max_allowed_packet = 1 << 30, GLOBAL event_scheduler = OFF, GLOBAL mandatory_roles = ''")
	_, err = Restore(t.Context(), r)
	must(t, err)
	if got := sql(t, target, limits); got != before {
		t.Errorf("once more it has %s instead of %s", got, before)
	}
}

// TestEventsWaitForTheRestore: one that is due every second writes into a table that is loaded.
func TestEventsWaitForTheRestore(t *testing.T) {
	w := theWorld(t)
	sql(t, w.primary, "CREATE DATABASE ticks; CREATE TABLE ticks.t (id INT PRIMARY KEY AUTO_INCREMENT); CREATE EVENT ticks.e ON SCHEDULE EVERY 1 SECOND DO INSERT INTO ticks.t VALUES ()")
	defer func() { sql(t, w.primary, "DROP DATABASE ticks"); w.caughtUp(t) }()
	for deadline := time.Now().Add(time.Minute); sql(t, w.primary, "SELECT COUNT(*) > 0 FROM ticks.t") != "1"; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the event does not run: this tries nothing")
		}
	}
	o := w.options(t, w.primary)
	m, err := patiently(t, o)
	must(t, err)
	for name, row := range map[string]struct{ before, scheduler string }{
		"a scheduler that is on":     {"DO 0", "ON"},
		"one that a setting has off": {"SET PERSIST event_scheduler = OFF", "OFF"},
	} {
		t.Run(name, func(t *testing.T) {
			target := w.fresh(t)
			sql(t, target, row.before)
			r := w.restore(t, o, target)
			r.Program = func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
				return target.Program(ctx, "sh", append([]string{"-c", `"$0" "$@" && sleep 3`, name}, arguments...)...)
			}
			looked := false
			r.Then = func(ctx context.Context, v *podclient.Visit, m Manifest) error {
				looked = true
				time.Sleep(2 * time.Second) // for what follows the backup no event may run either
				_, err := Compare(ctx, v, m)
				return err
			}
			_, err := Restore(t.Context(), r)
			must(t, err)
			got := sql(t, target, "SELECT (SELECT COUNT(*) FROM ticks.t), STATUS, @@GLOBAL.event_scheduler FROM information_schema.EVENTS WHERE EVENT_SCHEMA = 'ticks'")
			if rows, rest, _ := strings.Cut(got, "\t"); !looked || rows == "0" || m.rows("ticks", "t") == 0 || rest != "ENABLED\t"+row.scheduler {
				t.Errorf("the event's rows, its state and the scheduler are %s", got)
			}
		})
	}
}
