package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/podclient"
)

// stderrKept is how much of a program's complaints is told, in bytes.
const stderrKept = 1 << 10

// DumpArguments are those of mysqldump for the tables of databases of a host, as the backup pods' account: one view that is broken would
// end it, so that views and stored programs are read in another way. They are known outside so that
// a dump by hand can be compared with ours.
func (c Credentials) DumpArguments(host string, databases []string) []string {
	return append(append(c.arguments(mysql.BackupUser, host),
		"--single-transaction", "--quick", "--source-data=2", "--set-gtid-purged=ON",
		"--skip-triggers", "--ignore-views", "--hex-blob", "--no-tablespaces", "--default-character-set=utf8mb4",
		"--max-allowed-packet=1G", "--net-buffer-length=1M",
		// Its own look for a moment in which nothing commits must not hold the others up for long.
		"--init-command="+conn.WholeReads+podclient.Printing+", SESSION lock_wait_timeout = 10", "--ignore-table="+ownDatabase+".recovery",
		"--databases", "--"), databases...)
}

// start begins mysqldump.
func (d *dump) start(ctx context.Context, databases []string) (*running, error) {
	cmd := d.o.Program(ctx, "mysqldump", d.o.Credentials.DumpArguments(d.o.Member.Host, databases)...)
	r := &running{dump: d, cmd: cmd}
	cmd.Stderr = &r.complaints
	cmd.WaitDelay = 5 * time.Second
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		r.stdout, err = stdout, cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProgram, err)
	}
	return r, nil
}

// lostConnection finds in mysqldump's words that the server went away: no connection could be made (2002, 2003), it broke (2006,
// 2013, 2026, 2055), or the server was shut down (1053). The number comes before what it found or behind it, as in "Error 2013: Lost
// connection to MySQL server during query when dumping table" and "Couldn't execute 'SHOW TABLES': Lost connection … (2013)".
// Numbers in the names of tables say nothing.
var lostConnection = regexp.MustCompile(`mysqldump: (?:Got error|Error):? (?:20(?:02|03|06|13|26|55)|1053):|\((?:20(?:02|03|06|13|26|55)|1053)\)(?: mysqldump:|$)`)

// running is mysqldump as a reader: it ends with io.EOF only when the program said that all is well and the dump is whole.
type running struct {
	dump       *dump
	cmd        *exec.Cmd
	stdout     io.Reader
	complaints tail
	waited     bool
}

func (r *running) Read(p []byte) (int, error) {
	r.dump.waiting.Store(true)
	n, err := r.stdout.Read(p)
	r.dump.waiting.Store(false)
	if n > 0 {
		r.dump.moved.read.Add(int64(n))
		r.dump.mu.Lock()
		_, parse := r.dump.reader.Write(p[:n])
		found := r.dump.reader.found
		r.dump.mu.Unlock()
		if found {
			r.dump.once()
		}
		if parse != nil {
			return n, parse
		}
	}
	if err == nil {
		return n, nil
	}
	r.waited = true
	if failed := r.cmd.Wait(); failed != nil {
		text := r.complaints.text()
		if lostConnection.MatchString(text) {
			return n, fmt.Errorf("%w: mysqldump: %w: %s", ErrLost, failed, text)
		}
		return n, fmt.Errorf("%w: %w: %s", ErrProgram, failed, text)
	}
	if !errors.Is(err, io.EOF) {
		return n, fmt.Errorf("%w: %w", ErrProgram, err)
	}
	r.dump.mu.Lock()
	defer r.dump.mu.Unlock()
	if err := r.dump.reader.end(); err != nil {
		return n, err
	}
	return n, io.EOF
}

// once tells that mysqldump has its view.
func (d *dump) once() {
	select {
	case <-d.begun:
	default:
		close(d.begun)
	}
}

// kill ends the program if it still runs.
func (r *running) kill() {
	if r.waited {
		return
	}
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	if len(t.kept) > stderrKept {
		t.kept = t.kept[len(t.kept)-stderrKept:]
	}
	return len(b), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(strings.Fields(string(t.kept)), " ")
}
