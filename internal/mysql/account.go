package mysql

// account is a user or a role.
type account struct{ user, host string }

func (a account) quoted() string { return quoteName(a.user) + "@" + quoteName(a.host) }
