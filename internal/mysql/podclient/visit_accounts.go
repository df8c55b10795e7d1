package podclient

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// reservedAccounts are those that every cluster makes itself, and that must not come from another: they are bound to its
// own certificate authority. Of ours these are exactly three, with every host: MySQL would take one with a host of its own
// for the operator's. What else begins with nairobi_ is somebody's. MySQL's own are exactly three at localhost. Anonymous accounts are
// in LeftOut.
const reservedAccounts = "NOT (Host = 'localhost' AND User IN ('mysql.sys', 'mysql.session', 'mysql.infoschema')) AND User NOT IN ('" + mysql.OperatorUser + "', '" + mysql.ReplicationUser + "', '" + mysql.BackupUser + "', '" + mysql.MetricsUser + "') AND NOT (User = 'root' AND Host = 'localhost') AND User <> ''"

const (
	// createUser begins the statement that makes an account.
	createUser = "CREATE USER IF NOT EXISTS "
	// grantProxy begins one that only an account grants which may itself be a proxy for everybody, as root@localhost alone.
	grantProxy = "GRANT PROXY ON "
)

// Accounts returns the statements that make the users and roles of the server on another one of its version or later,
// with their passwords (as hashes) and privileges. The operator's own accounts are left out.
func (v *Visit) Accounts(ctx context.Context) ([]string, error) {
	accounts, err := v.accounts(ctx, "SELECT User, Host FROM mysql.user WHERE "+reservedAccounts+" ORDER BY User, Host")
	if err != nil {
		return nil, fmt.Errorf("list the accounts: %w", err)
	}
	// Hashes hold every byte there is.
	if err := v.exec(ctx, printing+", SESSION print_identified_with_as_hex = ON"); err != nil {
		return nil, fmt.Errorf("prepare to read the accounts: %w", err)
	}
	var create, grant, defaults []string
	beside, err := v.besideCreate(ctx)
	if err != nil {
		return nil, fmt.Errorf("read passwords and proxies: %w", err)
	}
	for _, a := range accounts {
		roles, err := v.accounts(ctx, "SELECT DEFAULT_ROLE_USER, DEFAULT_ROLE_HOST FROM mysql.default_roles WHERE USER = ? AND HOST = ? ORDER BY 1, 2", a.User, a.Host)
		if err != nil {
			return nil, fmt.Errorf("read the default roles of %s: %w", a.Quoted(), err)
		}
		definition, err := v.lines(ctx, "SHOW CREATE USER "+a.Quoted())
		if err != nil || len(definition) != 1 {
			return nil, fmt.Errorf("read account %s: %d answers: %w", a.Quoted(), len(definition), err)
		}
		statement, err := v.quoteRequired(ctx, a, definition[0])
		if err != nil {
			return nil, fmt.Errorf("read account %s: %w", a.Quoted(), err)
		}
		if len(roles) > 0 {
			// A role must exist before it can be somebody's default, so that comes last.
			clause := "DEFAULT ROLE " + join(roles)
			rest := strings.Replace(statement, " "+clause+" REQUIRE ", " REQUIRE ", 1)
			if rest == statement {
				return nil, fmt.Errorf("read account %s: its default roles are not where they should be", a.Quoted())
			}
			statement = rest
			defaults = append(defaults, "ALTER USER "+a.Quoted()+" "+clause)
		}
		create = append(create, strings.Replace(statement, "CREATE USER ", createUser, 1))
		grants, err := v.lines(ctx, "SHOW GRANTS FOR "+a.Quoted())
		if err != nil {
			return nil, fmt.Errorf("read the privileges of %s: %w", a.Quoted(), err)
		}
		grant = append(grant, slices.DeleteFunc(grants, func(g string) bool { return strings.HasPrefix(g, grantProxy) })...)
	}
	return slices.Concat(create, beside, grant, defaults), nil
}

// quoteRequired quotes what an account requires of its certificate: SHOW CREATE USER prints quotes and backslashes in it as they are.
func (v *Visit) quoteRequired(ctx context.Context, a conn.Account, statement string) (string, error) {
	if !slices.ContainsFunc([]string{" REQUIRE SUBJECT '", " REQUIRE ISSUER '", " REQUIRE CIPHER '"}, func(clause string) bool { return strings.Contains(statement, clause) }) {
		return statement, nil
	}
	required := make([]string, 3)
	err := v.s.Row(ctx, "SELECT x509_subject, x509_issuer, ssl_cipher FROM mysql.user WHERE User = ? AND Host = ? AND ssl_type = 'SPECIFIED'", []any{a.User, a.Host}, &required[0], &required[1], &required[2])
	if errors.Is(err, sql.ErrNoRows) {
		return statement, nil
	}
	if err != nil {
		return "", err
	}
	printed, quoted := " REQUIRE", " REQUIRE"
	for i, what := range []string{" SUBJECT ", " ISSUER ", " CIPHER "} {
		if required[i] != "" {
			printed += what + "'" + required[i] + "'"
			quoted += what + conn.QuoteText(required[i])
		}
	}
	before, after, found := strings.Cut(statement, printed+" ")
	if !found {
		return "", errors.New("what it requires of its certificate is not where it should be")
	}
	return before + quoted + " " + after, nil
}

// besideCreate are the statements that bring what CREATE USER cannot say: when a password was changed, by which it expires; the one
// before, where it is kept; and those that may not be used again. So with who may be a proxy for whom, which the operator cannot grant.
func (v *Visit) besideCreate(ctx context.Context) ([]string, error) {
	statements := []string{"DELETE FROM mysql.password_history WHERE " + reservedAccounts}
	err := v.s.LongRows(ctx, "SELECT User, Host, CAST(password_last_changed AS CHAR), User_attributes->>'$.additional_password' FROM mysql.user WHERE "+reservedAccounts+" ORDER BY User, Host", nil, func(rows *sql.Rows) error {
		var a conn.Account
		var changed, before sql.NullString
		if err := rows.Scan(&a.User, &a.Host, &changed, &before); err != nil {
			return err
		}
		set := "password_last_changed = NULL"
		if changed.Valid {
			set = "password_last_changed = " + conn.QuoteText(changed.String)
		}
		if before.Valid {
			set += ", User_attributes = JSON_SET(IFNULL(User_attributes, JSON_OBJECT()), '$.additional_password', " + conn.QuoteText(before.String) + ")"
		}
		statements = append(statements, "UPDATE mysql.user SET "+set+" WHERE User = "+conn.QuoteText(a.User)+" AND Host = "+conn.QuoteText(a.Host))
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, t := range []struct{ name, columns, read string }{
		{"mysql.password_history", "Host, User, Password_timestamp, Password", "Host, User, CAST(Password_timestamp AS CHAR), Password"},
		{"mysql.proxies_priv", "Host, User, Proxied_host, Proxied_user, With_grant, Grantor", "Host, User, Proxied_host, Proxied_user, With_grant, ''"},
	} {
		width := strings.Count(t.columns, ",") + 1
		if err := v.s.LongRows(ctx, "SELECT "+t.read+" FROM "+t.name+" WHERE "+reservedAccounts+" ORDER BY 1, 2, 3, 4", nil, func(rows *sql.Rows) error {
			row, into := make([]*string, width), make([]any, width)
			for i := range row {
				into[i] = &row[i]
			}
			if err := rows.Scan(into...); err != nil {
				return err
			}
			statements = append(statements, "INSERT INTO "+t.name+" ("+t.columns+") VALUES ("+strings.Join(literals(row), ", ")+")")
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return append(statements, "FLUSH PRIVILEGES"), nil
}

// AccountsSum sums up what the accounts are made of. As long as it is the same, so are they.
func (v *Visit) AccountsSum(ctx context.Context) (string, error) {
	const query = "CHECKSUM TABLE mysql.user, mysql.db, mysql.tables_priv, mysql.columns_priv, mysql.procs_priv, mysql.proxies_priv, mysql.global_grants, mysql.role_edges, mysql.default_roles, mysql.password_history"
	var all strings.Builder
	err := v.s.Rows(ctx, query, nil, func(rows *sql.Rows) error {
		var table string
		var sum sql.Null[uint64]
		if err := rows.Scan(&table, &sum); err != nil {
			return err
		}
		if !sum.Valid {
			return fmt.Errorf("CHECKSUM TABLE %s gives nothing", table)
		}
		_, err := fmt.Fprintln(&all, table, sum.V)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("sum up the accounts: %w", err)
	}
	return all.String(), nil
}

func join(accounts []conn.Account) string {
	quoted := make([]string, len(accounts))
	for i, a := range accounts {
		quoted[i] = a.Quoted()
	}
	return strings.Join(quoted, ",")
}

func (v *Visit) accounts(ctx context.Context, query string, args ...any) ([]conn.Account, error) {
	var found []conn.Account
	err := v.s.Rows(ctx, query, args, conn.Append(&found, func(a *conn.Account) []any { return []any{&a.User, &a.Host} }))
	return found, err
}

// lines reads rows of one column.
func (v *Visit) lines(ctx context.Context, query string) ([]string, error) {
	var lines []string
	err := v.s.Rows(ctx, query, nil, conn.Append(&lines, func(line *string) []any { return []any{line} }))
	return lines, err
}

// splitGrant makes one statement of each privilege, and of each column of one, in what SHOW GRANTS says: GRANT SELECT (`a`,
// `b`), INSERT ON …. What it does not understand it returns as it is.
func splitGrant(grant string) []string {
	const verb = "GRANT "
	if !strings.HasPrefix(grant, verb) {
		return []string{grant}
	}
	var (
		privileges []string
		quoted     bool
		begin      = len(verb)
		columns    = -1 // where the list of columns begins, of a privilege that has one
	)
	for i := begin; i < len(grant); i++ {
		switch c := grant[i]; {
		case c == '`':
			quoted = !quoted // a doubled one is the end and the beginning
		case quoted:
		case c == '(':
			columns = i + 1
			begin, privileges = i+1, append(privileges, grant[begin:i])
		case c == ',' && columns >= 0:
			last := len(privileges) - 1
			privileges = append(privileges, privileges[last])
			privileges[last] += "(" + strings.TrimSpace(grant[begin:i]) + ")"
			begin = i + 1
		case c == ')':
			privileges[len(privileges)-1] += "(" + strings.TrimSpace(grant[begin:i]) + ")"
			begin, columns = i+1, -1
		case c == ',', strings.HasPrefix(grant[i:], " ON "):
			if rest := strings.TrimSpace(grant[begin:i]); rest != "" {
				privileges = append(privileges, rest)
			}
			begin = i + 1
			if c != ',' {
				for n, p := range privileges {
					privileges[n] = verb + strings.TrimSpace(p) + grant[i:]
				}
				return privileges
			}
		}
	}
	return []string{grant}
}

// AccountDifferences says how the accounts of two servers differ, both as Accounts gave them. What was left out when they were made
// differs.
func AccountDifferences(want, have []string, left []LeftOut) []string {
	missing := map[string]bool{}
	for _, statement := range want {
		for _, piece := range splitGrant(statement) {
			missing[piece] = true
		}
	}
	for _, l := range left {
		delete(missing, l.What)
		if name, ok := strings.CutPrefix(l.What, "account "); ok {
			maps.DeleteFunc(missing, func(piece string, _ bool) bool { return strings.HasPrefix(piece, createUser+name+" ") })
		}
	}
	var differences []string
	for _, statement := range have {
		for _, piece := range splitGrant(statement) {
			if !missing[piece] && !slices.ContainsFunc(left, func(l LeftOut) bool {
				name, ok := strings.CutPrefix(l.What, "account ")
				return ok && strings.HasPrefix(piece, createUser+name+" ")
			}) {
				differences = append(differences, "accounts: not in the backup: "+withoutSecrets(piece))
			}
			delete(missing, piece)
		}
	}
	for _, piece := range slices.Sorted(maps.Keys(missing)) {
		differences = append(differences, "accounts: missing: "+withoutSecrets(piece))
	}
	return differences
}

// withoutSecrets leaves the hashes of passwords out of a statement.
func withoutSecrets(statement string) string {
	for _, secret := range []string{" IDENTIFIED ", " SET ", " VALUES "} {
		if before, _, found := strings.Cut(statement, secret); found {
			return before + " …"
		}
	}
	return statement
}

// CountAccounts is how many accounts the statements of Accounts make.
func CountAccounts(statements []string) int {
	n := 0
	for _, statement := range statements {
		if strings.HasPrefix(statement, createUser) {
			n++
		}
	}
	return n
}
