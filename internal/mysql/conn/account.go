package conn

// Account is a user or a role.
type Account struct{ User, Host string }

// Quoted is the account as SQL names it.
func (a Account) Quoted() string { return QuoteName(a.User) + "@" + QuoteName(a.Host) }
