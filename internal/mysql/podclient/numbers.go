package podclient

// Numbers of server errors that decide something here.
// Source: MySQL Server Error Message Reference, 9.x.
const (
	erBadField          = 1054
	erParse             = 1064
	erUnknownTable      = 1109
	erNoSuchGrant       = 1141
	erSyntax            = 1149 // of GRANT for a privilege that nothing on the server defines
	erNoSuchRoutine     = 1305
	erViewInvalid       = 1356
	erXARMError         = 1401 // of XA RECOVER without the privilege, too
	erTableDefChanged   = 1412
	erPluginIsNotLoaded = 1524
	erOutOfRange        = 1690
)
