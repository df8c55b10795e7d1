package podclient

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
)

// Loader fills a server that a Recovery has opened, without the binary log.
type Loader struct {
	v *Visit
	// definers are accounts that exist only while programs are made: the server lets nobody make a view of what belongs to an account
	// that is not there.
	definers []conn.Account
	// grants are privileges on what is not there yet.
	grants []string
	left   []LeftOut
}

// Loader makes the connection one that fills the server, and nothing else from now on.
func (v *Visit) Loader(ctx context.Context) (*Loader, error) {
	for _, statement := range []string{LoadSettings, programSettings} {
		if err := v.exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("prepare the session that fills the server: %w", err)
		}
	}
	return &Loader{v: v}, nil
}

// LeftOut is what could not be made so far.
func (l *Loader) LeftOut() []LeftOut { return l.left }

func (l *Loader) leave(what string, err error) {
	l.left = append(l.left, LeftOut{What: what, Why: conn.ServerWords(err)})
}

// refused says whether a statement failed because the server does not take it, and not because the server was lost.
func (l *Loader) refused(err error) bool {
	return err != nil && conn.ServerErrorNumber(err) != 0 && !l.v.s.Broken()
}

// Accounts runs the statements that Visit.Accounts gave. A privilege on a table, column or routine waits until Programs has made what
// there is: it outlives what it is on (tried on 9.7.4), but cannot be granted without it.
func (l *Loader) Accounts(ctx context.Context, statements []string) error {
	if slices.ContainsFunc(statements, func(s string) bool { return strings.HasPrefix(s, "REVOKE ") }) {
		// A server that starts with a partial revoke in its tables does the same.
		if err := l.v.exec(ctx, "SET GLOBAL partial_revokes = ON"); err != nil {
			return fmt.Errorf("prepare for partial revokes: %w", err)
		}
	}
	for _, statement := range statements {
		err := l.v.exec(ctx, statement)
		switch {
		case err == nil:
		case nothingThere(err):
			l.grants = append(l.grants, splitGrant(statement)...)
		case conn.IsServerError(err, mysql.ErAccessDeniedNoPassword) && strings.HasPrefix(statement, grantProxy): // of an older backup
			l.left, err = append(l.left, LeftOut{What: statement, Why: "only who may be a proxy for everybody grants this"}), nil
		case conn.IsServerError(err, mysql.ErPluginIsNotLoaded) && strings.HasPrefix(statement, createUser):
			err = l.lockedAccount(ctx, statement, err)
		}
		if err != nil && !nothingThere(err) {
			verb, _, _ := strings.Cut(statement, " ")
			return fmt.Errorf("make an account (%s …): %w", verb, err)
		}
	}
	return l.grantWhatIsThere(ctx)
}

// lockedAccount makes an account whose authentication the server does not know, so that what belongs to it is not lost.
func (l *Loader) lockedAccount(ctx context.Context, statement string, failure error) error {
	name, _, found := strings.Cut(strings.TrimPrefix(statement, createUser), " IDENTIFIED WITH ")
	if !found {
		return failure
	}
	if err := l.v.exec(ctx, createUser+name+" IDENTIFIED BY RANDOM PASSWORD ACCOUNT LOCK"); err != nil {
		return err
	}
	l.left = append(l.left, LeftOut{What: "account " + name, Why: conn.ServerWords(failure) +
		"; the account is locked and has its privileges: give it another authentication (ALTER USER … IDENTIFIED BY … ACCOUNT UNLOCK)"})
	return nil
}

// nothingThere says whether a statement failed because the database, table, column, routine or dynamic privilege does not exist.
func nothingThere(err error) bool {
	return conn.IsServerError(err, mysql.ErBadDB, mysql.ErNoSuchTable, mysql.ErBadField, mysql.ErSPDoesNotExist, mysql.ErSyntax)
}

// grantWhatIsThere grants of what waits what can be granted by now.
func (l *Loader) grantWhatIsThere(ctx context.Context) error {
	var waiting []string
	for _, grant := range l.grants {
		if err := l.v.exec(ctx, grant); nothingThere(err) {
			waiting = append(waiting, grant)
		} else if err != nil {
			return fmt.Errorf("grant a privilege: %w", err)
		}
	}
	l.grants = waiting
	return nil
}

// Prepare makes what tables need: reference systems, tablespaces, and the rows of MySQL's own tables. sameSeries says that both
// servers are of one series: only then reference systems that MySQL brings itself have to be the same.
func (l *Loader) Prepare(ctx context.Context, d Definitions, sameSeries bool) error {
	r := definitionReader{s: l.v.s}
	for _, read := range []func(context.Context) error{r.referenceSystems, r.systemRows} {
		if err := read(ctx); err != nil {
			return fmt.Errorf("read what the server has: %w", err)
		}
	}
	if err := l.referenceSystems(ctx, d.ReferenceSystems, r.found.ReferenceSystems, sameSeries); err != nil {
		return err
	}
	for _, t := range d.Tablespaces {
		if err := l.v.exec(ctx, t.statement()); err != nil {
			return fmt.Errorf("make tablespace %s: %w", t.Name, err)
		}
	}
	return l.systemRows(ctx, d.SystemRows, r.found.SystemRows)
}

func (l *Loader) referenceSystems(ctx context.Context, want, have []ReferenceSystem, sameSeries bool) error {
	present := map[uint32]ReferenceSystem{}
	for _, one := range have {
		present[one.ID] = one
	}
	for _, one := range want {
		is, there := present[one.ID]
		if there && (one.equal(is) || one.delivered() && !sameSeries) {
			continue
		}
		if err := l.v.exec(ctx, one.statement()); err != nil {
			return fmt.Errorf("make spatial reference system %d: %w", one.ID, err)
		}
	}
	return nil
}

func (r ReferenceSystem) equal(o ReferenceSystem) bool {
	return r.Name == o.Name && r.Definition == o.Definition && equalPointers(r.Organization, o.Organization) &&
		equalPointers(r.OrganizationID, o.OrganizationID) && equalPointers(r.Description, o.Description)
}

func equalPointers[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func (r ReferenceSystem) statement() string {
	var s strings.Builder
	fmt.Fprintf(&s, "CREATE OR REPLACE SPATIAL REFERENCE SYSTEM %d NAME %s", r.ID, conn.QuoteText(r.Name))
	if r.Organization != nil && r.OrganizationID != nil {
		fmt.Fprintf(&s, " ORGANIZATION %s IDENTIFIED BY %d", conn.QuoteText(*r.Organization), *r.OrganizationID)
	}
	s.WriteString(" DEFINITION " + conn.QuoteText(r.Definition))
	if r.Description != nil {
		s.WriteString(" DESCRIPTION " + conn.QuoteText(*r.Description))
	}
	return s.String()
}

// statement makes the tablespace with its file where it was in the data directory, or else there under its name.
func (t Tablespace) statement() string {
	file := t.File
	if strings.HasPrefix(file, "/") || strings.Contains(file, "..") {
		file = t.Name + ".ibd"
	}
	s := "CREATE TABLESPACE " + conn.QuoteName(t.Name) + " ADD DATAFILE " + conn.QuoteText(strings.TrimPrefix(file, "./"))
	if t.AutoextendSize != 0 {
		s += " AUTOEXTEND_SIZE = " + strconv.FormatUint(t.AutoextendSize, 10)
	}
	if t.BlockSize != 0 {
		s += " FILE_BLOCK_SIZE = " + strconv.FormatUint(t.BlockSize, 10)
	}
	if t.Encrypted {
		s += " ENCRYPTION = 'Y'"
	}
	if t.EngineAttribute != nil {
		s += " ENGINE_ATTRIBUTE = " + conn.QuoteText(*t.EngineAttribute)
	}
	return s + " ENGINE = InnoDB"
}

// systemRowsBatch is how many rows one statement has.
const systemRowsBatch = 500

func (l *Loader) systemRows(ctx context.Context, want, have []SystemRows) error {
	for _, t := range systemTables {
		rows := rowsOf(want, t.name)
		if len(rows) == 0 || slices.EqualFunc(rows, rowsOf(have, t.name), equalRows) {
			continue
		}
		verb := "REPLACE"
		if !t.merged {
			verb = "INSERT"
			if err := l.v.exec(ctx, "DELETE FROM "+qualified(t.name)); err != nil {
				return fmt.Errorf("empty %s: %w", qualified(t.name), err)
			}
		}
		for batch := range slices.Chunk(rows, systemRowsBatch) {
			lines := make([]string, len(batch))
			for i, row := range batch {
				lines[i] = "(" + strings.Join(literals(row), ",") + ")"
			}
			if err := l.v.exec(ctx, verb+" INTO "+qualified(t.name)+" ("+t.columns+") VALUES "+strings.Join(lines, ",")); err != nil {
				return fmt.Errorf("fill %s: %w", qualified(t.name), err)
			}
		}
	}
	for _, statement := range []string{"FLUSH LOCAL OPTIMIZER_COSTS", "FLUSH LOCAL PRIVILEGES"} {
		if err := l.v.exec(ctx, statement); err != nil {
			return fmt.Errorf("take the tables of mysql into use: %w", err)
		}
	}
	return nil
}

func rowsOf(all []SystemRows, table string) [][]*string {
	for _, one := range all {
		if one.Table == table {
			return one.Rows
		}
	}
	return nil
}

func equalRows(a, b []*string) bool { return slices.EqualFunc(a, b, equalPointers[string]) }

func literals(row []*string) []string {
	texts := make([]string, len(row))
	for i, value := range row {
		texts[i] = "NULL"
		if value != nil {
			texts[i] = conn.QuoteText(*value)
		}
	}
	return texts
}

// Programs makes the views and stored programs, and grants what had to wait for them. What the server refuses is in LeftOut.
func (l *Loader) Programs(ctx context.Context, d Definitions) error {
	if err := l.makeDefiners(ctx, d.Programs); err != nil {
		return err
	}
	collations, err := l.collations(ctx)
	if err != nil {
		return err
	}
	var views []Program
	for _, p := range d.Programs {
		if p.Kind == KindView {
			views = append(views, p)
			continue
		}
		if len(views) > 0 { // routines come before them, triggers and events after them
			if err := l.views(ctx, views); err != nil {
				return err
			}
			views = nil
		}
		if err := l.makeIn(ctx, p, collations[p.Database]); l.refused(err) {
			l.leave(p.Title(), err)
		} else if err != nil {
			return err
		}
	}
	if err := l.views(ctx, views); err != nil {
		return err
	}
	for _, grant := range l.grants {
		l.left = append(l.left, LeftOut{What: grant, Why: "what the privilege is on was gone when the backup was taken"})
	}
	l.grants = nil
	return nil
}

// forAWhile is the attribute of an account that is made for a definer and dropped at the end, if not by who made it, then by the next attempt.
const forAWhile = "nairobi_mysql_for_a_while"

// makeDefiners makes accounts for the definers that have none.
func (l *Loader) makeDefiners(ctx context.Context, programs []Program) error {
	known := map[conn.Account]bool{}
	present, err := l.v.accounts(ctx, "SELECT User, Host FROM mysql.user")
	if err != nil {
		return fmt.Errorf("list the accounts: %w", err)
	}
	for _, a := range present {
		known[a] = true
	}
	if l.definers, err = l.v.accounts(ctx, "SELECT USER, HOST FROM information_schema.USER_ATTRIBUTES WHERE JSON_CONTAINS_PATH(ATTRIBUTE, 'one', '$."+forAWhile+"')"); err != nil {
		return fmt.Errorf("list the definers that an earlier attempt left: %w", err)
	}
	for _, p := range programs {
		a, has := p.definer()
		if !has || known[a] || a.User == "" {
			continue
		}
		known[a] = true
		for _, statement := range []string{createUser + a.Quoted() + " IDENTIFIED BY RANDOM PASSWORD ACCOUNT LOCK ATTRIBUTE '{\"" + forAWhile + "\": true}'", "GRANT ALL ON *.* TO " + a.Quoted()} {
			if err := l.v.exec(ctx, statement); err != nil {
				return fmt.Errorf("make definer %s for a while: %w", a.Quoted(), err)
			}
		}
		l.definers = append(l.definers, a)
	}
	return nil
}

func (l *Loader) collations(ctx context.Context) (map[string]string, error) {
	found := map[string]string{}
	err := l.v.s.Rows(ctx, "SELECT SCHEMA_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA", nil, func(rows *sql.Rows) error {
		var name, collation string
		err := rows.Scan(&name, &collation)
		found[name] = collation
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the databases: %w", err)
	}
	return found, nil
}

// views makes views, which may need each other and privileges on each other, until none more can be made.
func (l *Loader) views(ctx context.Context, views []Program) error {
	for {
		if err := l.grantWhatIsThere(ctx); err != nil {
			return err
		}
		var waiting []Program
		var failures []error
		for _, p := range views {
			if err := l.make(ctx, p); l.refused(err) {
				waiting, failures = append(waiting, p), append(failures, err)
			} else if err != nil {
				return err
			}
		}
		if len(waiting) == 0 || len(waiting) == len(views) {
			for i, p := range waiting {
				l.leave(p.Title(), failures[i])
			}
			return nil
		}
		views = waiting
	}
}

// makeIn makes a program in a database of the given collation, which is the one of when it was made meanwhile: its parameters and
// variables take it.
func (l *Loader) makeIn(ctx context.Context, p Program, collation string) (err error) {
	if p.DatabaseCollation == "" || p.DatabaseCollation == collation {
		return l.make(ctx, p)
	}
	if err := l.v.exec(ctx, "ALTER DATABASE "+conn.QuoteName(p.Database)+" COLLATE "+p.DatabaseCollation); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, l.v.exec(ctx, "ALTER DATABASE "+conn.QuoteName(p.Database)+" COLLATE "+collation))
	}()
	return l.make(ctx, p)
}

// make makes a program in a session like the one that it was made in.
func (l *Loader) make(ctx context.Context, p Program) error {
	settings := []string{"SESSION sql_mode = " + conn.QuoteText(p.SQLMode), "timestamp = DEFAULT"}
	if p.AlteredAt > 0 {
		settings[1] = "timestamp = " + strconv.FormatInt(p.AlteredAt, 10)
	}
	if p.TimeZone != "" {
		settings = append(settings, "SESSION time_zone = "+conn.QuoteText(p.TimeZone))
	}
	if p.CharacterSet != "" {
		settings = append(settings, "SESSION collation_connection = "+p.Collation, "SESSION character_set_client = "+p.CharacterSet)
	}
	for _, statement := range []string{"USE " + conn.QuoteName(p.Database), "SET " + strings.Join(settings, ", "), string(p.Statement)} {
		if err := l.v.exec(ctx, statement); err != nil {
			return errors.Join(err, l.v.exec(ctx, afterProgram))
		}
	}
	return l.v.exec(ctx, afterProgram)
}

// afterProgram is the session for statements of our own.
const afterProgram = "SET NAMES utf8mb4, SESSION sql_mode = '', SESSION time_zone = '+00:00', timestamp = DEFAULT"

// End makes what only can be made when all is there, and drops the definers that were made for a while. Until then the server shows every
// view.
func (l *Loader) End(ctx context.Context, d Definitions) error {
	for _, one := range d.Databases {
		if !one.ReadOnly {
			continue
		}
		if err := l.v.exec(ctx, "ALTER DATABASE "+conn.QuoteName(one.Name)+" READ ONLY = 1"); err != nil {
			return fmt.Errorf("make database %s read-only: %w", one.Name, err)
		}
	}
	for _, a := range l.definers {
		if err := l.v.exec(ctx, "DROP USER "+a.Quoted()); err != nil {
			return fmt.Errorf("drop definer %s, which was made for a while: %w", a.Quoted(), err)
		}
	}
	l.definers = nil
	return nil
}
