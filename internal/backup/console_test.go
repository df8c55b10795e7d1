package backup

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// console is a session as root that stays, with the locks that it takes, and answers at once: no program is started for a statement.
type console struct {
	cmd        *exec.Cmd
	in         io.WriteCloser
	out        *bufio.Reader
	complaints tail
}

// open opens a session on a server. It ends with the test, or by close.
func open(t *testing.T, s *mysqld.Server) *console {
	t.Helper()
	c := &console{cmd: s.Program(t.Context(), "mysql", "--no-defaults", "--user=root", "--socket=/run/mysqld/mysqld.sock", "--batch", "--skip-column-names", "--unbuffered")}
	c.cmd.Stderr = &c.complaints
	var err error
	c.in, err = c.cmd.StdinPipe()
	must(t, err)
	out, err := c.cmd.StdoutPipe()
	must(t, err)
	c.out = bufio.NewReader(out)
	must(t, c.cmd.Start())
	t.Cleanup(c.close)
	return c
}

// close ends the session, and with it what it holds.
func (c *console) close() {
	_ = c.in.Close()
	_, _ = io.Copy(io.Discard, c.out)
	_ = c.cmd.Wait() // again is nothing
}

// answered follows each answer.
const answered = "that was all"

// do runs statements, waits for them, and returns the rows.
func (c *console) do(statements string) (string, error) {
	if _, err := fmt.Fprintf(c.in, "%s; SELECT '%s';\n", statements, answered); err != nil {
		return "", fmt.Errorf("%s: %w: %s", statements, err, c.complaints.text())
	}
	var rows []string
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			_ = c.cmd.Wait() // for what it complains of
			return "", fmt.Errorf("%s: %w: %s", statements, err, c.complaints.text())
		}
		if line = strings.TrimSuffix(line, "\n"); line == answered {
			return strings.Join(rows, "\n"), nil
		}
		rows = append(rows, line)
	}
}

// await asks until the answer is as wanted.
func (c *console) await(query, want string) error {
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		got, err := c.do(query)
		if err != nil || got == want {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: it is still %s, not %s", query, got, want)
		}
	}
}

// ended waits until a server has noticed that nobody of a dump is there any more: sooner than it would end their sessions itself.
func ended(t *testing.T, s *mysqld.Server) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		got := sql(t, s, "SELECT COUNT(*) FROM information_schema.processlist WHERE USER = 'nairobi_backup'")
		if got == "0" {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%s sessions are left", got)
			return
		}
	}
}
