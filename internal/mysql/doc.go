// Package mysql is the words of the SQL plane: what a member says of itself, the errors that callers decide on, the operator's
// accounts and the settings that it pins.
//
// It talks to nobody and imports nothing, so that whoever decides or simulates can import it. Below it conn has the sessions, observe
// reads members, admin changes them, probe writes to clusters as their clients do, and podclient is what backup pods ask.
// Numbers in comments ("fact 2") point to docs/mysql-facts.md, the list of what real mysqld was seen to do.
package mysql
