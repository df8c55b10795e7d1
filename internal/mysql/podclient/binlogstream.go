package podclient

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	goclient "github.com/go-mysql-org/go-mysql/client"
	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/alx-ke/nairobi-mysql-operator/internal/gtid"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

const (
	// streamHeartbeat is how often a source with nothing to say says so.
	streamHeartbeat = time.Second
	// streamSilence is when a source that says nothing at all is given up.
	streamSilence = 15 * time.Second
	// comBinlogDumpGTID and its payload: MySQL internals manual, "COM_BINLOG_DUMP_GTID".
	comBinlogDumpGTID = 0x1e
)

// BinlogStream follows the binary log of a server as a replica does. It acknowledges nothing. Close it.
type BinlogStream struct {
	// ServerUUID and Version are the server's.
	ServerUUID, Version string

	conn *goclient.Conn
}

// Follower is who follows a binary log. A server ends the stream of an older follower with the same UUID.
type Follower struct {
	ServerID uint32
	UUID     string
}

// OpenBinlogStream asks a server for every transaction that is not in have. Its error wraps ErrUnreachable when there is no
// connection. That transactions of it are no longer there is told by the first Next, with ErrPurged.
func OpenBinlogStream(ctx context.Context, o VisitOptions, who Follower, have gtid.Set) (*BinlogStream, error) {
	link, err := packets(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("follow the binary log of %s: %w", o.Endpoint.ServerName, err)
	}
	s := &BinlogStream{conn: link}
	if err := s.begin(who, have); err != nil {
		s.Close()
		return nil, fmt.Errorf("follow the binary log of %s: %w", o.Endpoint.ServerName, conn.Unreachable(err))
	}
	return s, nil
}

// packets opens a connection on which packets are read and written as they are. What is done on it must be over before
// DialTimeout, unless its deadline is moved.
func packets(ctx context.Context, o VisitOptions) (*goclient.Conn, error) {
	config, err := conn.ClientTLS(o.Endpoint, o.Identity)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Options.DialTimeout)
	defer cancel()
	dial := o.Options.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	bounded := func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return connection, connection.SetDeadline(time.Now().Add(o.Options.DialTimeout)) //nolint:forbidigo // the kernel's own clock
	}
	link, err := goclient.ConnectWithDialer(ctx, "tcp", o.Endpoint.Address, o.User, "", "", bounded, func(c *goclient.Conn) error {
		c.SetTLSConfig(config)
		// Without them a statement's packet holds the statement and nothing else.
		c.UnsetCapability(gomysql.CLIENT_QUERY_ATTRIBUTES)
		return nil
	})
	if err != nil {
		return nil, conn.Unreachable(err)
	}
	return link, nil
}

func (s *BinlogStream) begin(who Follower, have gtid.Set) error {
	result, err := s.conn.Execute("SELECT @@server_uuid, @@version")
	if err != nil {
		return err
	}
	if s.ServerUUID, err = result.GetString(0, 0); err != nil {
		return err
	}
	if s.Version, err = result.GetString(0, 1); err != nil {
		return err
	}
	for _, statement := range []string{
		"SET @source_binlog_checksum = @@GLOBAL.binlog_checksum, @master_binlog_checksum = @@GLOBAL.binlog_checksum",
		fmt.Sprintf("SET @source_heartbeat_period = %d, @master_heartbeat_period = %[1]d", streamHeartbeat.Nanoseconds()),
		fmt.Sprintf("SET @replica_uuid = '%s', @slave_uuid = '%[1]s'", who.UUID),
	} {
		if _, err := s.conn.Execute(statement); err != nil {
			return err
		}
	}
	set, err := gomysql.ParseMysqlGTIDSet(have.String())
	if err != nil {
		return fmt.Errorf("encode the GTID set: %w", err)
	}
	encoded := set.Encode()
	// After the four bytes of the packet's header, which the connection fills in.
	packet := make([]byte, 4, 64+len(encoded))
	packet = append(packet, comBinlogDumpGTID)
	packet = binary.LittleEndian.AppendUint16(packet, 0) // flags: wait for what comes
	packet = binary.LittleEndian.AppendUint32(packet, who.ServerID)
	packet = binary.LittleEndian.AppendUint32(packet, 0) // no file's name
	packet = binary.LittleEndian.AppendUint64(packet, 4) // its beginning
	packet = binary.LittleEndian.AppendUint32(packet, uint32(len(encoded)))
	s.conn.ResetSequence()
	return s.conn.WritePacket(append(packet, encoded...))
}

// ErrPurged: transactions that are asked for are no longer in the server's binary logs.
var ErrPurged = errors.New("the server has purged transactions that are asked for")

// Next writes the next event as it was sent, with its checksum where the server writes them, in as many pieces as it comes. An
// event comes every second, if only a heartbeat. With an error of to's the stream is of no use any more.
func (s *BinlogStream) Next(ctx context.Context, to io.Writer) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	p := &packet{to: to, heard: func() error { return s.heard(ctx) }}
	err := p.heard()
	if err == nil {
		err = s.conn.ReadPacketTo(p)
	}
	switch {
	case ctx.Err() != nil && err != nil:
		return context.Cause(ctx)
	case p.failure != nil:
		return p.failure
	case err != nil:
		return fmt.Errorf("read the binary log: %w", conn.Unreachable(err))
	case p.kind == gomysql.OK_HEADER && p.begun:
		return nil
	case p.kind == gomysql.ERR_HEADER && p.begun:
		err := s.conn.HandleErrorPacket(append([]byte{p.kind}, p.rest...))
		var answer *gomysql.MyError
		if errors.As(err, &answer) && answer.Code == mysql.ErSourceFatalErrorReadingBinlog {
			err = fmt.Errorf("%w: %s", ErrPurged, answer.Message)
		}
		return fmt.Errorf("read the binary log: %w", err)
	}
	return fmt.Errorf("read the binary log: %w: the server ended the stream", mysql.ErrUnreachable)
}

// heard gives the source its time again: a large event takes longer.
func (s *BinlogStream) heard(ctx context.Context) error {
	if err := s.conn.SetDeadline(time.Now().Add(streamSilence)); err != nil { //nolint:forbidigo // the kernel's own clock
		return err
	}
	// The end of ctx may have been overruled just now.
	return context.Cause(ctx)
}

// packet passes an event on, and keeps everything else.
type packet struct {
	to      io.Writer
	heard   func() error
	begun   bool
	kind    byte
	rest    []byte
	failure error // of to
}

// maxAnswer bounds an answer that is no event, in bytes.
const maxAnswer = 64 << 10

func (p *packet) Write(b []byte) (int, error) {
	all := len(b)
	if err := p.heard(); err != nil {
		return 0, err
	}
	if !p.begun && len(b) > 0 {
		p.begun, p.kind, b = true, b[0], b[1:]
	}
	if p.kind != gomysql.OK_HEADER {
		p.rest = append(p.rest, b[:min(len(b), maxAnswer-len(p.rest))]...)
		return all, nil
	}
	if len(b) > 0 {
		if _, err := p.to.Write(b); err != nil {
			p.failure = err
			return 0, err
		}
	}
	return all, nil
}

// Close ends the stream.
func (s *BinlogStream) Close() { _ = s.conn.Conn.Close() }
