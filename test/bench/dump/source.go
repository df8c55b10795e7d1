package dump

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/admin"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

const (
	// sizeVariable says how much is dumped, in GiB of rows; a fraction will do.
	sizeVariable, sizeDefault = "BENCH_BACKUP_GIB", 5.0
	// database holds the rows.
	database = "shop"
	// pieceSize is what one LOAD DATA loads, in bytes; loadsAtOnce is how many run side by side.
	pieceSize, loadsAtOnce = 64 << 20, 2
	// roomFactor is how much disk is needed for a data set: indexes, the redo log, what S3 holds, and some air.
	roomFactor = 3
)

// asOnAnInstance gives a server of the farm, which is made for small tests, memory and a redo log that an instance with
// such data would have.
const asOnAnInstance = "SET GLOBAL innodb_buffer_pool_size = 1024*1024*1024; SET GLOBAL innodb_redo_log_capacity = 2048*1024*1024"

// checkRoom makes sure that the disk has room for a data set.
func checkRoom(size int64) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(os.TempDir(), &fs); err != nil {
		return fmt.Errorf("look for room: %w", err)
	}
	if free := int64(fs.Bavail) * fs.Bsize; free < roomFactor*size {
		return fmt.Errorf("%s has %d MiB free and %d MiB are needed; set TMPDIR or %s", os.TempDir(), free>>20, roomFactor*size>>20, sizeVariable)
	}
	return nil
}

// startServer starts a server of the cluster's first member.
func startServer(ctx context.Context, farm *mysqld.Farm) (*mysqld.Server, error) {
	s, err := farm.Start(ctx, mysqld.Options{Name: member})
	if err != nil {
		return nil, err
	}
	_, err = s.SQL(ctx, asOnAnInstance)
	return s, err
}

// promote makes a server a primary that backup pods may dump.
func promote(ctx context.Context, farm *mysqld.Farm, s *mysqld.Server) error {
	ca, cert, key := farm.OperatorIdentity()
	pool := conn.NewPool(conn.Options{DialTimeout: time.Minute, StatementTimeout: time.Minute, ChangeTimeout: time.Minute})
	defer pool.Close()
	endpoint := mysql.Endpoint{Key: s.InstanceID(), Address: s.Address(), ServerName: s.DNSName()}
	p := admin.Open(pool, endpoint, mysql.Identity{CAPEM: ca, CertPEM: cert, KeyPEM: key})
	if err := p.Promote(ctx, mysql.PromoteSpec{}); err != nil {
		return err
	}
	_, err := p.EnsurePodAccount(ctx, mysql.BackupUser, farm.Authority.IssuerDN(), farm.Authority.ClientDN(pki.BackupPods))
	return err
}

// fill makes tables with about size bytes of rows, without the binary log and, meanwhile, without the redo log.
func fill(ctx context.Context, s *mysqld.Server, size int64, tables []table) error {
	db, err := sql.Open("mysql", fmt.Sprintf("root@unix(%s)/", s.Socket()))
	if err != nil {
		return fmt.Errorf("fill the server: %w", err)
	}
	defer db.Close()
	if err := execute(ctx, db, "SET GLOBAL local_infile = ON", "ALTER INSTANCE DISABLE INNODB REDO_LOG", "CREATE DATABASE "+database); err != nil {
		return err
	}
	group, loading := errgroup.WithContext(ctx)
	group.SetLimit(loadsAtOnce)
	for _, t := range tables {
		group.Go(func() error { return load(loading, db, t, int64(float64(size)*t.share)) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return execute(ctx, db, "ALTER INSTANCE ENABLE INNODB REDO_LOG", "SET GLOBAL local_infile = OFF")
}

// load makes a table and fills it.
func load(ctx context.Context, db *sql.DB, t table, size int64) error {
	c, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("load %s: %w", t.name, err)
	}
	defer c.Close()
	if err := execute(ctx, c, "SET SESSION sql_log_bin = OFF", "USE "+database, fmt.Sprintf("CREATE TABLE %s (%s)", t.name, t.columns)); err != nil {
		return err
	}
	source := newRows(t, size)
	defer driver.DeregisterReaderHandler(t.name)
	for source.left > 0 {
		piece := source.piece(pieceSize)
		driver.RegisterReaderHandler(t.name, piece.reader)
		if err := execute(ctx, c, fmt.Sprintf("LOAD DATA LOCAL INFILE 'Reader::%s' INTO TABLE %s CHARACTER SET utf8mb4", t.name, t.name)); err != nil {
			return err
		}
	}
	return execute(ctx, c, "ANALYZE TABLE "+t.name)
}

func execute(ctx context.Context, on interface {
	ExecContext(ctx context.Context, query string, arguments ...any) (sql.Result, error)
}, statements ...string) error {
	for _, s := range statements {
		if _, err := on.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%.40s: %w", s, err)
		}
	}
	return nil
}
