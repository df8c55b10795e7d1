package settings

// InForceValues is inForce, for the tests that ask servers.
var InForceValues = inForce
