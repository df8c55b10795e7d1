package observe

import (
	"regexp"
	"slices"
)

// The client library's own errors (CR_…) are numbered from crFirst to crLast. Of these only crPacketTooLarge stops a receiver.
// Source: MySQL Client Error Message Reference, 9.x; sql/rpl_replica.cc, handle_slave_io.
const (
	crFirst          = 2000
	crPacketTooLarge = 2020
	crLast           = 2999
)

// connectionRefusals are the errors with which a source refuses a connection or ends it.
// Source: MySQL Server Error Message Reference, 9.x.
var connectionRefusals = []int{
	1040, // ER_CON_COUNT_ERROR
	1042, // ER_BAD_HOST_ERROR
	1043, // ER_HANDSHAKE_ERROR
	1045, // ER_ACCESS_DENIED_ERROR
	1053, // ER_SERVER_SHUTDOWN
	1129, // ER_HOST_IS_BLOCKED
	1130, // ER_HOST_NOT_PRIVILEGED
	1158, // ER_NET_READ_ERROR
	1159, // ER_NET_READ_INTERRUPTED
	1160, // ER_NET_ERROR_ON_WRITE
	1161, // ER_NET_WRITE_INTERRUPTED
	1203, // ER_TOO_MANY_USER_CONNECTIONS
	1226, // ER_USER_LIMIT_REACHED
	1698, // ER_ACCESS_DENIED_NO_PASSWORD_ERROR
	1862, // ER_MUST_CHANGE_PASSWORD_LOGIN
	3032, // ER_SERVER_OFFLINE_MODE
	3118, // ER_ACCOUNT_HAS_BEEN_LOCKED
	3159, // ER_SECURE_TRANSPORT_REQUIRED
}

// accountRefusals are those of them, and of the errors that stop a receiver, with which a source refuses the account of its replicas.
var accountRefusals = []int{
	1044, // ER_DBACCESS_DENIED_ERROR
	1045, // ER_ACCESS_DENIED_ERROR
	1130, // ER_HOST_NOT_PRIVILEGED
	1226, // ER_USER_LIMIT_REACHED
	1227, // ER_SPECIFIC_ACCESS_DENIED_ERROR
	1698, // ER_ACCESS_DENIED_NO_PASSWORD_ERROR
	1862, // ER_MUST_CHANGE_PASSWORD_LOGIN
	3118, // ER_ACCOUNT_HAS_BEEN_LOCKED
}

// erCommandFailed is MySQL's ER_RPL_REPLICA_SOURCE_COM_FAILURE: what the source answered to a command of the receiver follows at the end.
const erCommandFailed = 13120

// sourceErrno matches the number of the source's answer at the end of such an error.
var sourceErrno = regexp.MustCompile(`\(Errno: ([0-9]+)\)$`)

// accountRefused reports whether an error of a receiver says that its source refused the account.
func accountRefused(errno int, text string) bool {
	if answer := sourceErrno.FindStringSubmatch(text); errno == erCommandFailed && answer != nil {
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
