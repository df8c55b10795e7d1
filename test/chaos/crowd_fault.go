package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/cloud"
)

// crowdSize is how many clients come: more than a server takes that nobody configured.
const crowdSize = 170

// tooManyConnections is what a full server tells a client.
const tooManyConnections = 1040

// crowd parts the primary from the other members, and lets more clients write to it than it takes connections. None is
// answered, all give up, and what they leave behind waits on in the server. When the others come back there is no connection
// left for them. What the crowd wrote is not the ledger's.
func crowd(ctx context.Context, s *Scene) error {
	if err := s.settleCrowdTable(ctx); err != nil {
		return err
	}
	if err := cutAll(ctx, s, both(s.Primary.InstanceID, cloud.PartyMembers)...); err != nil {
		return err
	}
	var all sync.WaitGroup
	var refused atomic.Int64
	for range crowdSize {
		all.Go(func() {
			connector, err := s.access.connector(s.load.theService().address, s.load.theService().name, answerTimeout)
			if err != nil {
				return
			}
			conn, err := connector.Connect(ctx)
			if err != nil {
				if told := new(mysql.MySQLError); errors.As(err, &told) && told.Number == tooManyConnections {
					refused.Add(1)
				}
				return
			}
			if statement, err := conn.Prepare("INSERT INTO crowd VALUES ()"); err == nil {
				_, _ = statement.Exec(nil) //nolint:staticcheck // the driver's plainest way; it is not to be answered
			}
			_ = conn.Close()
		})
	}
	all.Wait()
	if refused.Load() == 0 {
		return errors.New("the crowd found room: the primary was never full")
	}
	return nil
}

// settleCrowdTable makes the table that the crowd writes to.
func (s *Scene) settleCrowdTable(ctx context.Context) error {
	db, err := s.open(s.load.theService())
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS crowd (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY)"); err != nil {
		return fmt.Errorf("make the crowd's table: %w", err)
	}
	return nil
}
