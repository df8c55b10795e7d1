package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// Parts of MySQL's client/server protocol, as far as the operator's driver uses it: the handshake with TLS, COM_QUERY,
// COM_PING and COM_QUIT, text result sets. Source: MySQL internals, "Client/Server Protocol".
const (
	protocolVersion = 10
	utf8mb4         = 45 // utf8mb4_general_ci
	autocommit      = 2  // SERVER_STATUS_AUTOCOMMIT
	varString       = 0xfd

	capLongPassword     = 1 << 0
	capLongFlag         = 1 << 2
	capProtocol41       = 1 << 9
	capTLS              = 1 << 11
	capTransactions     = 1 << 13
	capSecureConnection = 1 << 15
	capMultiResults     = 1 << 17
	capPluginAuth       = 1 << 19
	capConnectAttrs     = 1 << 20
	capLenencAuth       = 1 << 21

	serverCapabilities = capLongPassword | capLongFlag | capProtocol41 | capTLS | capTransactions | capSecureConnection |
		capMultiResults | capPluginAuth | capConnectAttrs | capLenencAuth

	authPlugin   = "mysql_native_password"
	saltLength   = 20
	saltFirst    = 8
	responseHead = 4 + 4 + 1 + 23 // capabilities, largest packet, character set, filler

	comQuit  = 0x01
	comQuery = 0x03
	comPing  = 0x0e

	// netBuffer is how much an answer may have before it is sent: MySQL's net_buffer_length. It decides how large a TLS
	// record the operator has to take in at once.
	netBuffer = 16 << 10

	// largestPacket bounds what is read from a client. The operator's largest statement has a few KiB.
	largestPacket = 1 << 20

	erAccessDenied = 1045
	erSyntax       = 1064
)

// sqlError is an error that the client sees as MySQL's.
type sqlError struct {
	number  uint16
	message string
}

func (e *sqlError) Error() string { return fmt.Sprintf("%d: %s", e.number, e.message) }

// rowset is the answer to a statement. One without columns is a plain OK.
type rowset struct {
	columns []string
	rows    [][]any // string, or nil for NULL
}

// wire is one connection, seen from the server.
type wire struct {
	net.Conn
	in  *bufio.Reader
	out *bufio.Writer
	seq byte
}

// greet does the handshake: it offers TLS, insists on it, and returns the user and the state of the TLS connection.
func greet(ctx context.Context, raw net.Conn, id uint32, version string, config *tls.Config) (*wire, string, tls.ConnectionState, error) {
	none := tls.ConnectionState{}
	// Nothing is read ahead before TLS begins: what follows the request for it belongs to TLS.
	w := &wire{Conn: raw, in: bufio.NewReaderSize(raw, 16), out: bufio.NewWriter(raw)}
	if err := w.send(greeting(id, version)); err != nil {
		return nil, "", none, err
	}
	if err := w.out.Flush(); err != nil {
		return nil, "", none, err
	}
	request, err := readPacket(raw, &w.seq)
	if err != nil {
		return nil, "", none, err
	}
	if len(request) != responseHead || binary.LittleEndian.Uint32(request)&capTLS == 0 {
		return nil, "", none, errors.New("the client does not ask for TLS")
	}
	secure := tls.Server(raw, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, "", none, err
	}
	w.Conn, w.in, w.out = secure, bufio.NewReader(secure), bufio.NewWriterSize(secure, netBuffer)
	login, err := readPacket(w.in, &w.seq)
	if err != nil {
		return nil, "", none, err
	}
	if len(login) < responseHead {
		return nil, "", none, errors.New("the login is too short")
	}
	user, _, _ := bytes.Cut(login[responseHead:], []byte{0})
	return w, string(user), secure.ConnectionState(), nil
}

func greeting(id uint32, version string) []byte {
	// The salt would protect a password. What logs in here proves itself by its certificate, or not at all.
	salt := bytes.Repeat([]byte{'s'}, saltLength)
	p := append([]byte{protocolVersion}, version...)
	p = append(p, 0)
	p = binary.LittleEndian.AppendUint32(p, id)
	p = append(p, salt[:saltFirst]...)
	p = append(p, 0)
	p = binary.LittleEndian.AppendUint16(p, serverCapabilities&0xffff)
	p = append(p, utf8mb4)
	p = binary.LittleEndian.AppendUint16(p, autocommit)
	p = binary.LittleEndian.AppendUint16(p, serverCapabilities>>16)
	p = append(p, saltLength+1)
	p = append(p, make([]byte, 10)...)
	p = append(p, salt[saltFirst:]...)
	p = append(p, 0)
	p = append(p, authPlugin...)
	return append(p, 0)
}

// next reads a command. io.EOF says that the client is done.
func (w *wire) next() (command byte, argument []byte, err error) {
	packet, err := readPacket(w.in, &w.seq)
	if err != nil {
		return 0, nil, err
	}
	if len(packet) == 0 || packet[0] == comQuit {
		return 0, nil, io.EOF
	}
	return packet[0], packet[1:], nil
}

// reply answers a command.
func (w *wire) reply(answer rowset, err error) error {
	var refused *sqlError
	switch {
	case errors.As(err, &refused):
		err = w.refuse(refused)
	case err != nil:
		return err
	case len(answer.columns) == 0:
		err = w.ok()
	default:
		err = w.sendRows(answer)
	}
	if err != nil {
		return err
	}
	return w.out.Flush()
}

func (w *wire) ok() error {
	return w.send([]byte{0, 0, 0, autocommit, 0, 0, 0})
}

func (w *wire) refuse(e *sqlError) error {
	p := binary.LittleEndian.AppendUint16([]byte{0xff}, e.number)
	p = append(p, "#HY000"...)
	return w.send(append(p, e.message...))
}

func (w *wire) sendRows(answer rowset) error {
	eof := []byte{0xfe, 0, 0, autocommit, 0}
	packets := [][]byte{appendLength(nil, len(answer.columns))}
	for _, name := range answer.columns {
		packets = append(packets, column(name))
	}
	packets = append(packets, eof)
	for _, row := range answer.rows {
		var p []byte
		for _, value := range row {
			if text, ok := value.(string); ok {
				p = appendText(p, text)
			} else {
				p = append(p, 0xfb)
			}
		}
		packets = append(packets, p)
	}
	for _, p := range append(packets, eof) {
		if err := w.send(p); err != nil {
			return err
		}
	}
	return nil
}

// column is a column's definition: all are text.
func column(name string) []byte {
	var p []byte
	for _, text := range []string{"def", "", "", "", name, name} {
		p = appendText(p, text)
	}
	p = append(p, 0x0c)
	p = binary.LittleEndian.AppendUint16(p, utf8mb4)
	p = binary.LittleEndian.AppendUint32(p, 1<<16)
	return append(p, varString, 0, 0, 0, 0, 0)
}

func appendText(p []byte, text string) []byte { return append(appendLength(p, len(text)), text...) }

func appendLength(p []byte, n int) []byte {
	switch {
	case n < 0xfb:
		return append(p, byte(n))
	case n < 1<<16:
		return binary.LittleEndian.AppendUint16(append(p, 0xfc), uint16(n))
	}
	return append(p, 0xfd, byte(n), byte(n>>8), byte(n>>16))
}

func (w *wire) send(payload []byte) error {
	n := len(payload)
	if _, err := w.out.Write([]byte{byte(n), byte(n >> 8), byte(n >> 16), w.seq}); err != nil {
		return err
	}
	w.seq++
	_, err := w.out.Write(payload)
	return err
}

// readPacket reads one packet and takes its sequence number over: an answer counts on from there.
func readPacket(r io.Reader, seq *byte) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
	if n > largestPacket {
		return nil, fmt.Errorf("a packet of %d bytes", n)
	}
	*seq = head[3] + 1
	payload := make([]byte, n)
	_, err := io.ReadFull(r, payload)
	return payload, err
}
