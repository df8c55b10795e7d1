package mysql

import (
	"errors"
)

// Errors that callers decide on. They come wrapped with the action and the member; test with errors.Is.
var (
	// ErrUnreachable: no verified connection to the member could be made. Observe says more.
	ErrUnreachable = errors.New("no verified connection")
	// ErrLeaseRefused: the lease could not be confirmed, so no writing session was opened.
	ErrLeaseRefused = errors.New("the lease is not confirmed")
	// ErrLockHeld: another session holds the operator's lock on the member and did not go when it was killed.
	ErrLockHeld = errors.New("another session holds the operator's lock")
	// ErrCommitsPending: commits wait for their acknowledgements, and the action would release, hide or join them.
	ErrCommitsPending = errors.New("commits wait for their acknowledgements")
	// ErrBlocked: open transactions or table locks of clients held up the action; nothing was changed.
	ErrBlocked = errors.New("held up by locks of other sessions")
	// ErrEpochChanged: the membership row has another epoch than the caller believed.
	ErrEpochChanged = errors.New("the membership has another epoch")
	// ErrNotApplied: received transactions are not applied yet; going on would throw them away.
	ErrNotApplied = errors.New("received transactions are not applied yet")
	// ErrApplierStopped: the applier stands still on an error, so that waiting for it is in vain.
	ErrApplierStopped = errors.New("the applier stands still")
	// ErrWritable: the member accepts writes, and the action is only for members that do not.
	ErrWritable = errors.New("the member is writable")
	// ErrReplicates: the member has a source, and the action is only for members that have none.
	ErrReplicates = errors.New("the member has a source")
	// ErrSettingRefused: MySQL does not know the variable, or does not take the value as it is.
	ErrSettingRefused = errors.New("setting refused")
	// ErrPasswordRefused: MySQL does not take the password, for what it is: it is one of those before, too weak, or too long.
	ErrPasswordRefused = errors.New("password refused")
	// ErrAccountNotOurs: an account of the name that the operator is to make is there, and somebody else made it.
	ErrAccountNotOurs = errors.New("account of somebody else")
	// ErrClientsRefused: the server takes the operator's writes and turns those of clients away.
	ErrClientsRefused = errors.New("the server refuses clients")
	// ErrJoinNotReady: the member has not written its certificate request yet.
	ErrJoinNotReady = errors.New("the certificate request is not there yet")
	// ErrCertificateNotTaken: the certificate was delivered, but the member does not present it yet. Try again.
	ErrCertificateNotTaken = errors.New("the certificate is delivered but not in use yet")
	// ErrInvalidArgument: a name or value that must never reach SQL.
	ErrInvalidArgument = errors.New("invalid argument")
	// ErrStepNotEffective: a statement reported success, but reading back shows another state.
	ErrStepNotEffective = errors.New("the statement had no effect")
)

// ErrNothingThere: a server that was made from a copy of a volume holds no transaction, so that nothing was copied.
var ErrNothingThere = errors.New("the server has executed no transaction; what it was made from is not the data volume of a cluster")
