package conn

// Account is a user or a role.
type Account struct{ User, Host string }

func (a Account) Quoted() string { return QuoteName(a.User) + "@" + QuoteName(a.Host) }
