package observe

import (
	"regexp"
	"slices"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
)

// The client library's own errors (CR_…) are numbered from crFirst to crLast. Of these only crPacketTooLarge stops a receiver.
// Source: MySQL Client Error Message Reference, 9.x; sql/rpl_replica.cc, handle_slave_io.
const (
	crFirst          = 2000
	crPacketTooLarge = 2020
	crLast           = 2999
)

// connectionRefusals are the errors with which a source refuses a connection or ends it.
var connectionRefusals = []int{
	mysql.ErConCount,
	mysql.ErBadHost,
	mysql.ErHandshake,
	mysql.ErAccessDenied,
	mysql.ErServerShutdown,
	mysql.ErHostIsBlocked,
	mysql.ErHostNotPrivileged,
	mysql.ErNetRead,
	mysql.ErNetReadInterrupted,
	mysql.ErNetErrorOnWrite,
	mysql.ErNetWriteInterrupted,
	mysql.ErTooManyUserConnections,
	mysql.ErUserLimitReached,
	mysql.ErAccessDeniedNoPassword,
	mysql.ErMustChangePasswordLogin,
	mysql.ErServerOfflineMode,
	mysql.ErAccountHasBeenLocked,
	mysql.ErSecureTransportRequired,
}

// accountRefusals are those of them, and of the errors that stop a receiver, with which a source refuses the account of its replicas.
var accountRefusals = []int{
	mysql.ErDBAccessDenied,
	mysql.ErAccessDenied,
	mysql.ErHostNotPrivileged,
	mysql.ErUserLimitReached,
	mysql.ErSpecificAccessDenied,
	mysql.ErAccessDeniedNoPassword,
	mysql.ErMustChangePasswordLogin,
	mysql.ErAccountHasBeenLocked,
}

// sourceErrno matches the number of the source's answer at the end of such an error.
var sourceErrno = regexp.MustCompile(`\(Errno: ([0-9]+)\)$`)

// accountRefused reports whether an error of a receiver says that its source refused the account.
func accountRefused(errno int, text string) bool {
	if answer := sourceErrno.FindStringSubmatch(text); errno == mysql.ErReplicaSourceComFailure && answer != nil {
		errno = number(answer[1])
	}
	return slices.Contains(accountRefusals, errno)
}

// receiverRetries reports whether a receiver retries after an error with this number. Such an error is left in Last_IO_Error when
// STOP REPLICA ends the retries.
func receiverRetries(errno int) bool {
	if errno >= crFirst && errno <= crLast {
		return errno != crPacketTooLarge
	}
	return slices.Contains(connectionRefusals, errno)
}
