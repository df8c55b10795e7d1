package conn

import (
	"errors"
	"fmt"
	"testing"

	driver "github.com/go-sql-driver/mysql"
)

// TestWhatAServerLacksPasses: of a dump that is loaded, or of a value that is looked for, it says nothing.
func TestWhatAServerLacksPasses(t *testing.T) {
	for number, says := range map[uint16]string{
		3:    "Error writing file '/tmp/MLfd=40' (OS errno 28 - No space left on device)",
		1004: "Can't create file (errno: 24 - Too many open files)",
		1021: "Disk full",
		1026: "Error writing file",
		1030: "Got error 28 from storage engine",
		1037: "Out of memory",
		1038: "Out of sort memory",
		1040: "Too many connections",
		1041: "Out of memory",
		1053: "Server shutdown in progress",
		1114: "The table is full",
		1119: "Thread stack overrun",
		1135: "Can't create a new thread",
		1205: "Lock wait timeout exceeded",
		1206: "The total number of locks exceeds the lock table size",
		1213: "Deadlock found",
		1290: "The server is running with --read-only",
		1317: "Query execution was interrupted",
		1412: "Table definition has changed, please retry transaction",
		1436: "Thread stack overrun",
		1637: "Too many active concurrent transactions",
		1811: "IO Write error",
		1874: "InnoDB is in read only mode",
		1878: "Temporary file write failure",
		1881: "Operation not allowed when innodb_force_recovery > 0",
		3015: "Out of memory in storage engine",
		3019: "Undo Log error: No more space left over in system tablespace",
		3024: "maximum statement execution time exceeded",
		3032: "The server is currently in offline mode",
		3169: "Session was killed",
		3170: "Memory capacity exceeded",
		3675: "Create table/tablespace failed, as disk is full",
		3680: "Failed to create schema directory",
		3884: "could not allocate temporary tablespace for this session",
		3985: "Not enough resources to complete lock request",
		4031: "disconnected by the server because of inactivity",
		4081: "Global connection memory limit exceeded",
		4082: "Connection memory limit exceeded",
		4313: "in offline mode, set by user",
	} {
		judge(t, number, says, false)
	}
}

// TestWhatAStatementHoldsIsRefusedForGood, whichever server it is sent to.
func TestWhatAStatementHoldsIsRefusedForGood(t *testing.T) {
	for number, says := range map[uint16]string{
		1064: "You have an error in your SQL syntax",
		1062: "Duplicate entry",
		1153: "Got a packet bigger than 'max_allowed_packet' bytes",
		1215: "Cannot add foreign key constraint",
		1264: "Out of range value",
		1449: "The user specified as a definer does not exist",
		1467: "Failed to read auto-increment value from storage engine",
		1526: "Table has no partition for value",
		3819: "Check constraint is violated",
	} {
		judge(t, number, says, true)
	}
	if err := errors.New("signal: killed"); RefusesForGood(err) || RefusesForGood(ClientError("ERROR 2013 (HY000): Lost connection to MySQL server during query")) {
		t.Error("the end of the client, or of its connection, counts as an answer")
	}
}

// judge compares what is made of an answer over a connection, and as the mysql client prints it.
func judge(t *testing.T, number uint16, says string, forGood bool) {
	t.Helper()
	answer := fmt.Errorf("load: %w", &driver.MySQLError{Number: number, Message: says})
	printed := ClientError(fmt.Sprintf("ERROR %d (HY000) at line 5: %s", number, says))
	if RefusesForGood(answer) != forGood || RefusesForGood(printed) != forGood {
		t.Errorf("%d (%s) is refused for good: %t, %t as printed", number, says, RefusesForGood(answer), RefusesForGood(printed))
	}
}
