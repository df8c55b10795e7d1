package cloud

import (
	"bytes"
	"os"
	"sync"
	"time"

	"github.com/creack/pty"
)

const (
	// consoleLimit is how much GetConsoleOutput shows, in bytes.
	consoleLimit = 64 << 10
	// consolePause is the wait while nobody has the terminal open.
	consolePause = 20 * time.Millisecond
)

// console keeps what a machine prints, over its reboots.
type console struct {
	file *os.File // everything, for people

	mu      sync.Mutex
	text    []byte
	changed bool
}

func newConsole(path string) (*console, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return &console{file: file}, nil
}

// terminal makes a terminal for a machine and follows it until ended is
// closed. The caller closes tty once the machine has it.
func (c *console) terminal(ended <-chan struct{}) (tty *os.File, err error) {
	master, tty, err := pty.Open()
	if err != nil {
		return nil, err
	}
	go c.follow(master, ended)
	return tty, nil
}

func (c *console) follow(master *os.File, ended <-chan struct{}) {
	defer master.Close()
	go func() {
		<-ended
		time.Sleep(consolePause) // for what is still in the terminal
		master.Close()
	}()
	buffer := make([]byte, 4096)
	for {
		n, err := master.Read(buffer)
		c.append(buffer[:n])
		if err == nil {
			continue
		}
		// A terminal that nobody has open reads as an error, for a while.
		select {
		case <-ended:
			return
		case <-time.After(consolePause):
		}
	}
}

func (c *console) append(b []byte) {
	b = bytes.ReplaceAll(b, []byte("\r"), nil)
	if len(b) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, b...)
	if over := len(c.text) - consoleLimit; over > 0 {
		c.text = bytes.Clone(c.text[over:])
	}
	c.changed = true
	// A full disk must not stop the machine.
	_, _ = c.file.Write(b)
}

// news returns the text if it has changed since the last call.
func (c *console) news() (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := c.changed
	c.changed = false
	return string(c.text), changed
}

// clear forgets the text, as EC2 does when an instance starts.
func (c *console) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text, c.changed = nil, true
}

func (c *console) close() error { return c.file.Close() }
