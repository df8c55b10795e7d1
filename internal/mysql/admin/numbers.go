package admin

// Numbers of server errors that decide something here.
// Source: MySQL Server Error Message Reference, 9.x.
const (
	erAccessDenied         = 1045
	erFileExists           = 1086
	erWrongTypeForVariable = 1232
	erVariableReadOnly     = 1238
	erWrongStringLength    = 1470
	erNotValidPassword     = 1819
	erPasswordExpired      = 1862
	erAccountLocked        = 3118
	erPasswordInHistory    = 3638
	erRestartFailed        = 3707
	erInstanceLocked       = 3857 // LOCK INSTANCE FOR BACKUP
)
