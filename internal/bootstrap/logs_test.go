package bootstrap

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestLogsAreKeptShort: of each log there are two files. One that has grown is set aside, and mysqld is asked to open its logs again
// for as long as it writes to what was set aside.
func TestLogsAreKeptShort(t *testing.T) {
	const general, slow = ExchangeDir + "/logs/general.log", ExchangeDir + "/logs/slow.log"
	const systemctl = `systemctl() { case "$*" in *is-active*) [ -z "${STOPPED:-}" ] ;; *) echo "asked: $*" ;; esac; }; `
	m := newMachine(t)
	if out := m.mustRun(systemctl + "rotate"); out != "" {
		t.Errorf("before there are logs: %s", out)
	}
	m.mustRun(systemctl + "prepare")
	for _, log := range []string{general, slow} {
		if info, err := os.Stat(m.path(log)); err != nil || info.Mode().Perm() != 0o664 {
			t.Fatalf("%s: %v %v", log, info, err)
		}
	}

	m.write(slow, "short")
	m.write(general, strings.Repeat("x", 16<<20))
	written := time.Now().Add(-time.Minute)
	if err := os.Chtimes(m.path(general), written, written); err != nil {
		t.Fatal(err)
	}
	if out := m.mustRun(systemctl + "rotate"); out != "" {
		t.Errorf("mysqld is asked before the log is set aside: %s", out)
	}
	if m.read(general) != "" || len(m.read(general+".1")) != 16<<20 || m.read(slow) != "short" || m.read(slow+".1") != "" {
		t.Error("it is not the long log that was set aside")
	}
	if out := m.mustRun(systemctl + "rotate"); out != "" {
		t.Errorf("mysqld is asked although it writes nothing: %s", out)
	}

	m.write(general+".1", "more")
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(m.path(general+".1"), later, later); err != nil {
		t.Fatal(err)
	}
	const asked = "asked: kill -s USR1 --kill-who=main nairobi-mysqld\n"
	for range 2 { // the first may not have arrived
		if out := m.mustRun(systemctl + "rotate"); out != asked {
			t.Errorf("mysqld writes to a log that was set aside, and is asked %q", out)
		}
	}
	// What has no handler for the signal yet would end by it.
	if out := m.mustRun(systemctl+"rotate", "STOPPED=1"); out != "" {
		t.Errorf("a server that is not up is asked %q", out)
	}
}
