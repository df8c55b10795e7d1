// Package mysql is the SQL plane: it observes members and changes them, always through verified TLS.
//
// It is the only package that imports the MySQL driver. Its methods are named after what they are for; each
// re-reads what it needs before it writes, may run twice, and may be cut off half way.
// Numbers in comments ("fact 2") point to the list of what real mysqld was seen to do, kept with the design.
package mysql
