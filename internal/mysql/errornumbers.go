package mysql

// Numbers of the server's errors, by MySQL's names for them without the ending _ERROR.
// Source: MySQL Server Error Message Reference, 9.x.
const (
	ErDiskFull                         = 1021
	ErErrorOnWrite                     = 1026
	ErGetErrno                         = 1030 // of a storage engine, such as 28: no room left
	ErOutOfMemory                      = 1037
	ErOutOfSortMemory                  = 1038
	ErConCount                         = 1040
	ErOutOfResources                   = 1041
	ErBadHost                          = 1042
	ErHandshake                        = 1043
	ErDBAccessDenied                   = 1044
	ErAccessDenied                     = 1045
	ErBadDB                            = 1049
	ErServerShutdown                   = 1053
	ErBadField                         = 1054
	ErParse                            = 1064
	ErFileExists                       = 1086
	ErNoSuchThread                     = 1094
	ErUnknownError                     = 1105
	ErUnknownTable                     = 1109
	ErRecordFileFull                   = 1114 // a full disk, too
	ErHostIsBlocked                    = 1129
	ErHostNotPrivileged                = 1130
	ErNonexistingGrant                 = 1141
	ErNoSuchTable                      = 1146
	ErSyntax                           = 1149 // of GRANT for a privilege that nothing on the server defines
	ErNetRead                          = 1158
	ErNetReadInterrupted               = 1159
	ErNetErrorOnWrite                  = 1160
	ErNetWriteInterrupted              = 1161
	ErErrorDuringCommit                = 1180
	ErUnknownSystemVariable            = 1193
	ErTooManyUserConnections           = 1203
	ErLockWaitTimeout                  = 1205
	ErLockTableFull                    = 1206
	ErLockDeadlock                     = 1213
	ErUserLimitReached                 = 1226
	ErSpecificAccessDenied             = 1227
	ErWrongTypeForVar                  = 1232
	ErSourceFatalErrorReadingBinlog    = 1236 // a source cannot serve this replica
	ErIncorrectGlobalLocalVar          = 1238 // the variable is read-only
	ErOptionPreventsStatement          = 1290 // read_only, for example
	ErTruncatedWrongValue              = 1292
	ErSPDoesNotExist                   = 1305
	ErQueryInterrupted                 = 1317
	ErViewInvalid                      = 1356
	ErXAERRMErr                        = 1401 // of XA RECOVER without the privilege, too
	ErTableDefChanged                  = 1412
	ErWrongStringLength                = 1470
	ErPluginIsNotLoaded                = 1524
	ErNoPartitionForGivenValue         = 1526
	ErDataOutOfRange                   = 1690
	ErAccessDeniedNoPassword           = 1698
	ErNotValidPassword                 = 1819
	ErMustChangePasswordLogin          = 1862
	ErServerOfflineMode                = 3032
	ErAccountHasBeenLocked             = 3118
	ErSecureTransportRequired          = 3159
	ErCredentialsContradictToHistory   = 3638
	ErRestartServerFailed              = 3707
	ErCantStopReplicaWhileLockedBackup = 3857 // LOCK INSTANCE FOR BACKUP
	ErPartialRevokesExist              = 3896
	ErClientInteractionTimeout         = 4031

	// As SHOW REPLICA STATUS has them.
	ErReplicaSourceComFailure  = 13120 // what the source answered to a command of the receiver follows at the end
	ErReplicaRLIInitRepository = 13124 // START REPLICA fails with 1872 (fact 31)
)
