package mysql

import (
	"fmt"
	"strings"
	"time"
)

// Holder is a session, or a prepared XA transaction, that has a lock which a statement of the operator waits for. It has no text of a
// statement and no value of a row: those are the application's. Nor has it anything that differs from one look to the next while the lock
// is held, because its text is written to the status of a cluster.
type Holder struct {
	// Connection is its connection id; 0 for a prepared XA transaction, and for a thread of the server's own.
	Connection uint64
	// User and Host are its account. Thread is the name of its thread.
	User, Host, Thread string
	// Lock is what it has, in words. With Waits it only waits for that, and the operator's statement waits behind it.
	Lock  string
	Waits bool
	// Commits is true while its commit waits for an acknowledgement.
	Commits bool
	// Since is when it began what Does says, such as a transaction; zero when it does nothing for long.
	Does  string
	Since time.Time
	// Prepared is true for a prepared XA transaction. XID is its identifier as XA ROLLBACK takes it; empty when several are prepared,
	// because MySQL does not show which of them has the lock.
	Prepared bool
	XID      string
}

// accounts are those that are no client's, with what their sessions do and when that ends.
var accounts = map[string]struct{ is, ends string }{
	OperatorUser:       {"the operator", "it ends by itself"},
	BackupUser:         {"a backup of the operator", "it ends with the backup, which kubectl get mysqlbackups shows"},
	ReplicationUser:    {"a replica that copies or replicates", "it ends when the replica has its copy"},
	MetricsUser:        {"the metrics pod of the operator", "it ends within seconds"},
	"system user":      {"MySQL's replication", "it ends with the transaction that is applied, see SHOW REPLICA STATUS"},
	"event_scheduler":  {"MySQL's event scheduler", "it ends by itself"},
	"mysql.session":    {"MySQL itself", "it ends by itself"},
	"mysql.sys":        {"MySQL itself", "it ends by itself"},
	"mysql.infoschema": {"MySQL itself", "it ends by itself"},
}

// String says who it is, what it holds and does, and how or when that ends.
func (h Holder) String() string {
	var text strings.Builder
	text.WriteString(h.who())
	if h.Does != "" {
		fmt.Fprintf(&text, ", %s since %s,", h.Does, h.Since.UTC().Format("15:04 UTC on 2 Jan"))
	}
	if h.Waits {
		fmt.Fprintf(&text, " waits for %s, and this statement waits behind it", h.Lock)
	} else {
		text.WriteString(" holds " + h.Lock)
	}
	return text.String() + "; " + h.ends()
}

func (h Holder) who() string {
	switch {
	case h.Prepared:
		return strings.TrimSpace("a prepared XA transaction " + h.XID)
	case h.Connection == 0 && h.Thread != "":
		return "MySQL's own thread " + h.Thread
	case h.Connection == 0:
		return "a transaction without a connection"
	}
	who := fmt.Sprintf("connection %d (%s)", h.Connection, strings.TrimSuffix(h.User+"@"+h.Host, "@"))
	if account, known := accounts[h.User]; known {
		who += ", " + account.is
		if h.Does == "" {
			who += ","
		}
	}
	return who
}

func (h Holder) ends() string {
	account, known := accounts[h.User]
	switch {
	case h.Prepared && h.XID != "":
		return "XA COMMIT or XA ROLLBACK ends it"
	case h.Prepared:
		return "XA RECOVER CONVERT XID lists those there are, and XA COMMIT or XA ROLLBACK ends one"
	case h.Commits:
		return "it ends when replicas acknowledge its commit, and KILL does not end it"
	case known:
		return account.ends
	case h.Connection == 0, h.User == "":
		return "it ends by itself"
	}
	return fmt.Sprintf("KILL %d ends it", h.Connection)
}
