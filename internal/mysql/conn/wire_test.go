package conn_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/test/mysqltest"
)

// dialTo dials a server at an address with an identity that no other one knows.
func dialTo(t *testing.T, address string, change func(*conn.Options)) error {
	t.Helper()
	authority, err := pki.NewAuthority("uid", "orders", time.Now())
	mysqltest.Must(t, err)
	cert, key, err := authority.IssueOperator(time.Now())
	mysqltest.Must(t, err)
	p := mysqltest.NewPool(t, func(o *conn.Options) {
		o.DialTimeout = time.Minute
		change(o)
	})
	endpoint := mysql.Endpoint{Key: "uid/orders-0/i-0", Address: address, ServerName: "orders-0"}
	return p.Handle(endpoint, mysql.Identity{CAPEM: authority.CertificatePEM(), CertPEM: cert, KeyPEM: key}).Read(t.Context(), func(*conn.Session) error { return nil })
}

// TestAnswerWithoutEnd: a server that was taken over sends one packet after the other, which the driver joins. It is cut off where the
// pool says, or at a bound for all.
func TestAnswerWithoutEnd(t *testing.T) {
	for name, row := range map[string]struct {
		most, want int64
		says       string
	}{
		"as the pool says": {64 << 10, 64 << 10, "larger than 64 KiB"},
		"unless it says":   {0, conn.DefaultMaxAnswer, "larger than 65536 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			var taken atomic.Int64
			address := listener(t, func(c net.Conn) { go pour(c) })
			err := dialTo(t, address, func(o *conn.Options) {
				o.MaxAnswer = row.most
				o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					c, err := (&net.Dialer{}).DialContext(ctx, network, address)
					return countingConn{c, &taken}, err
				}
			})
			if !errors.Is(err, conn.ErrAnswerTooLarge) || !strings.Contains(err.Error(), row.says) {
				t.Errorf("got error %v", err)
			}
			// One packet, whose buffer one read fills, may lie beyond the bound.
			if n := taken.Load(); n <= row.want || n > row.want+1<<24 {
				t.Errorf("%d KiB were taken", n>>10)
			}
		})
	}
}

// pour writes packets of the greatest length until nobody reads them.
func pour(c net.Conn) {
	part := append([]byte{0xff, 0xff, 0xff, 0}, make([]byte, 1<<24-1)...)
	for n := 0; ; n++ {
		part := slices.Clone(part)
		part[3] = byte(n)
		if _, err := c.Write(part); err != nil {
			return
		}
	}
}

// countingConn counts the bytes that are read.
type countingConn struct {
	net.Conn
	taken *atomic.Int64
}

func (c countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.taken.Add(int64(n))
	return n, err
}

// TestRefusalIsShort: what a server says of why it refuses goes into conditions, events and logs. MySQL has 512 bytes for it.
func TestRefusalIsShort(t *testing.T) {
	for name, row := range map[string]struct {
		said string
		want int
	}{
		"as long as one of MySQL's": {strings.Repeat("a", conn.LongestRefusal), conn.LongestRefusal},
		"longer":                    {strings.Repeat("a", 50_000), conn.LongestRefusal},
	} {
		t.Run(name, func(t *testing.T) {
			body := append([]byte{0xff, 0, 0}, row.said...)
			binary.LittleEndian.PutUint16(body[1:], mysql.ErHostNotPrivileged)
			packet := append([]byte{byte(len(body)), byte(len(body) >> 8), byte(len(body) >> 16), 0}, body...)
			address := listener(t, func(c net.Conn) { go func() { _, _ = c.Write(packet) }() })
			err := dialTo(t, address, func(*conn.Options) {})
			if conn.ServerErrorNumber(err) != mysql.ErHostNotPrivileged {
				t.Fatalf("got error %v", err)
			}
			if got := len(conn.ServerWords(err)); got != row.want || len(err.Error()) > row.want+200 {
				t.Errorf("its words have %d bytes, the error %d", got, len(err.Error()))
			}
		})
	}
}
