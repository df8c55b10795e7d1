package admin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/conn"
	"github.com/alx-ke/nairobi-mysql-operator/internal/mysql/observe"
	"github.com/alx-ke/nairobi-mysql-operator/internal/settings"
)

// PinSettings puts global variables back to the given values. They are not persisted: they are in my.cnf, or persisted
// already. What only a restart can change is left as it is.
func (m *Member) PinSettings(ctx context.Context, pins map[string]string) (err error) {
	defer m.h.Annotate(&err, "put pinned settings back")
	for name := range pins {
		if err := mysql.CheckVariable(name); err != nil {
			return err
		}
	}
	return m.h.Control(ctx, func(s *conn.Session) error {
		var failures []error
		for _, name := range slices.Sorted(maps.Keys(pins)) {
			if err := pin(ctx, s, name, pins[name]); err != nil && !conn.IsServerError(err, mysql.ErIncorrectGlobalLocalVar) {
				failures = append(failures, fmt.Errorf("%s: %w", name, err))
				if s.Broken() {
					return errors.Join(failures...)
				}
			}
		}
		for name := range mysql.TLSInForce() {
			if _, changed := pins[name]; changed {
				return errors.Join(append(failures, s.Change(ctx, opReloadTLS, reloadTLS))...)
			}
		}
		return errors.Join(failures...)
	})
}

// pin sets one of the pins.
func pin(ctx context.Context, s *conn.Session, name, value string) error {
	switch name {
	case mysql.RedoLog:
		return s.Change(ctx, "pin/"+name, "ALTER INSTANCE ENABLE INNODB REDO_LOG")
	case mysql.ClonePlugin:
		return installClone(ctx, s)
	case mysql.GTIDMode:
		return raiseGTIDMode(ctx, s)
	case mysql.ServerID:
		return restoreServerID(ctx, s, value)
	case mysql.SuperReadOnly:
		return closeHalfOpen(ctx, s)
	}
	return assign(ctx, s, "pin/"+name, "SET GLOBAL "+name+" = ?", value)
}

// gtidModes are the values of gtid_mode in the order in which it takes them.
var gtidModes = []string{"OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"}

// raiseGTIDMode sets gtid_mode to ON, step by step.
func raiseGTIDMode(ctx context.Context, s *conn.Session) error {
	var mode string
	if err := s.Row(ctx, "SELECT @@GLOBAL.gtid_mode", nil, &mode); err != nil {
		return err
	}
	for _, next := range gtidModes[slices.Index(gtidModes, mode)+1:] {
		if err := s.Change(ctx, "pin/"+mysql.GTIDMode, "SET GLOBAL gtid_mode = ?", next); err != nil {
			return err
		}
	}
	return nil
}

// restoreServerID sets server_id, and has a replica connect again: what it dropped, because it bore the same, it asks for. It receives nothing
// in between, because it would apply that ahead of what it dropped.
func restoreServerID(ctx context.Context, s *conn.Session, value string) error {
	status, err := observe.ReplicationStatus(ctx, s)
	if err != nil {
		return err
	}
	receives := status != nil && status.IOState != mysql.IOOff
	if receives {
		if err := stopIOThread(ctx, s); err != nil {
			return err
		}
	}
	if err := assign(ctx, s, "pin/"+mysql.ServerID, "SET GLOBAL server_id = ?", value); err != nil || !receives {
		return err
	}
	return s.Change(ctx, "replicate/start-io", "START REPLICA IO_THREAD"+ofOurs)
}

// SetRelaySync sets after how many events the relay log is synced, until the server's next start. 1 counts from the next event on, and for
// all of the open file; what a rotation closed was synced then (fact 32).
func (m *Member) SetRelaySync(ctx context.Context, value string) (err error) {
	defer m.h.Annotate(&err, "set "+mysql.RelaySync)
	return m.h.Control(ctx, func(s *conn.Session) error {
		return assign(ctx, s, "relay/sync", "SET GLOBAL "+mysql.RelaySync+" = ?", value)
	})
}

// SetMaxConnections sets how many connections the server takes, 1 to 100,000, until its next start.
func (m *Member) SetMaxConnections(ctx context.Context, limit int) (err error) {
	defer m.h.Annotate(&err, "set "+mysql.MaxConnections)
	return m.h.Control(ctx, func(s *conn.Session) error {
		return assign(ctx, s, "connections/limit", "SET GLOBAL "+mysql.MaxConnections+" = ?", strconv.Itoa(limit))
	})
}

// assign runs a SET with one value, as a number if it looks like one and, if MySQL wants a string, as a string.
func assign(ctx context.Context, s *conn.Session, op, query, value string) error {
	literal, err := mysql.SettingLiteral(value)
	if err != nil {
		return err
	}
	err = s.Change(ctx, op, query, literal)
	if _, isText := literal.(string); !isText && conn.IsServerError(err, mysql.ErWrongTypeForVar) {
		err = s.Change(ctx, op, query, value)
	}
	return err
}

// setting is what a server says of one variable.
type setting struct {
	current, persisted string
	known, isPersisted bool
}

// ApplySettings persists the wanted settings and drops persisted ones that are wanted no more, which return to their default.
// Dynamic variables count at once; read-only ones, and dropped ones of which MySQL does not know what it would start with (see
// startsAtOther), from the next restart on: restartNeeded says so. What is as wanted is not touched.
// A setting that MySQL does not know, does not take, or would change to another value is left as it was, and makes the
// error ErrSettingRefused, with one line for each; the others are applied. A size that MySQL rounds is taken, as MySQL rounds it. MySQL checks no size against the instance's
// memory (fact 25): nobody does. due, unless nil, is called once before the first change that counts only from a restart
// on: its error ends it all. RefusedSettings tells from the error which were refused.
func (m *Member) ApplySettings(ctx context.Context, want map[string]string, drop []string, due func(context.Context) error) (restartNeeded bool, err error) {
	defer m.h.Annotate(&err, "apply settings")
	var misnamed []error
	isName := func(name string) bool {
		err := mysql.CheckVariable(name)
		misnamed = append(misnamed, aboutSetting(name, err))
		return err == nil
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(want)), func(name string) bool { return !isName(name) })
	drop = slices.DeleteFunc(slices.Clone(drop), func(name string) bool { return !isName(name) })
	err = m.h.Control(ctx, func(s *conn.Session) error {
		present, err := readSettings(ctx, s, slices.Concat(names, drop, []string{mysql.PersistedLoad}))
		if err != nil {
			return err
		}
		announce := sync.OnceValue(func() error {
			if due == nil {
				return nil
			}
			return due(ctx)
		})
		refused, err := applyEach(names, func(name string) error {
			restart, err := applySetting(ctx, s, name, want[name], present[name], announce)
			restartNeeded = restartNeeded || restart
			return err
		})
		if err != nil {
			return err
		}
		for _, name := range drop {
			if _, wanted := want[name]; wanted || !present[name].isPersisted {
				continue
			}
			blind := present[mysql.PersistedLoad].current == "OFF" // all that is persisted waits for a restart then
			restart, err := dropSetting(ctx, s, name, !blind && present[name].known, announce)
			if err != nil {
				return err
			}
			restartNeeded = restartNeeded || restart
		}
		return errors.Join(slices.Concat(misnamed, refused)...)
	})
	return restartNeeded, err
}

// errLimited is in the error of a setting of which the server took another number, because of the value that another setting has.
var errLimited = errors.New("the value of another setting limits it")

// applyEach applies settings in their order, and those that another one limits once more after all others. It returns what was refused.
func applyEach(names []string, apply func(name string) error) (refused []error, err error) {
	for range 2 {
		var limited []string
		refused = slices.DeleteFunc(refused, func(err error) bool { return errors.Is(err, errLimited) })
		for _, name := range names {
			err := apply(name)
			if err != nil && !errors.Is(err, mysql.ErrSettingRefused) {
				return nil, err
			}
			if errors.Is(err, errLimited) {
				limited = append(limited, name)
			}
			refused = append(refused, aboutSetting(name, err))
		}
		names = limited
	}
	return refused, nil
}

// refusedSetting is an ErrSettingRefused that says of which variable.
type refusedSetting struct {
	error
	name string
}

// Unwrap is the error itself.
func (r refusedSetting) Unwrap() error { return r.error }

func aboutSetting(name string, err error) error {
	if err == nil {
		return nil
	}
	return refusedSetting{err, name}
}

// RefusedSettings are the settings that an error of ApplySettings says were refused, with what it says of each.
func RefusedSettings(err error) map[string]error {
	found := map[string]error{}
	for pending := []error{err}; len(pending) > 0; pending = pending[1:] {
		switch err := pending[0].(type) { //nolint:errorlint // the whole tree is walked
		case refusedSetting:
			found[err.name] = err.error
		case interface{ Unwrap() []error }:
			pending = append(pending, err.Unwrap()...)
		case interface{ Unwrap() error }:
			pending = append(pending, err.Unwrap())
		}
	}
	return found
}

func readSettings(ctx context.Context, s *conn.Session, names []string) (map[string]setting, error) {
	present := make(map[string]setting, len(names))
	if len(names) == 0 {
		return present, nil
	}
	arguments := make([]any, 0, 2*len(names))
	for range 2 {
		for _, name := range names {
			arguments = append(arguments, name)
		}
	}
	in := " WHERE VARIABLE_NAME IN (" + marks(len(names)) + ")"
	err := s.Rows(ctx, "SELECT 0, VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.global_variables"+in+
		" UNION ALL SELECT 1, VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.persisted_variables"+in, arguments,
		func(rows *sql.Rows) error {
			var persisted bool
			var name string
			var value sql.Null[string]
			if err := rows.Scan(&persisted, &name, &value); err != nil {
				return err
			}
			is := present[name]
			if persisted {
				is.persisted, is.isPersisted = value.V, true
			} else {
				is.current, is.known = value.V, true
			}
			present[name] = is
			return nil
		})
	return present, err
}

// applySetting persists one setting. restart says that it counts only after one, which due is told before.
func applySetting(ctx context.Context, s *conn.Session, name, value string, is setting, due func() error) (restart bool, err error) {
	if is.isPersisted && mysql.EqualSetting(value, is.persisted) {
		if mysql.EqualSetting(value, is.current) {
			return false, nil
		}
		return true, due()
	}
	if !is.known {
		return false, fmt.Errorf("%w: %s: this server has no such variable", mysql.ErrSettingRefused, name)
	}
	// With a global max_error_count of 0 a session has no warnings, and a strict mode makes errors of some of them: see adjustment.
	if err := s.Change(ctx, "settings/warnings", "SET SESSION max_error_count = 64, SESSION sql_mode = 'NO_ENGINE_SUBSTITUTION'"); err != nil {
		return false, err
	}
	defer func() {
		if failed := s.Change(ctx, "settings/strict", "SET SESSION sql_mode = "+conn.SQLMode); failed != nil {
			err = failed
		}
	}()
	restart, static, err := persist(ctx, s, name, value, is, due)
	if err != nil {
		if conn.ServerErrorNumber(err) != 0 || errors.Is(err, mysql.ErrSettingRefused) {
			err = fmt.Errorf("%w: %s=%s: %w", mysql.ErrSettingRefused, name, value, err)
		}
		return false, err
	}
	why, err := adjustment(ctx, s, name, value)
	if err != nil || why == nil {
		return restart, err
	}
	if err := revertSetting(ctx, s, name, is, static); err != nil {
		return false, err
	}
	return false, fmt.Errorf("%w: %s=%s: %w", mysql.ErrSettingRefused, name, value, why)
}

// persist persists one setting, and says whether it is static and whether it counts only after a restart, which due is told before.
func persist(ctx context.Context, s *conn.Session, name, value string, is setting, due func() error) (restart, static bool, err error) {
	changes := !mysql.EqualSetting(value, is.current) && !settings.RoundsTo(name, value, is.current)
	if restart = changes && settings.CountsFromRestart(name); restart {
		if err := due(); err != nil {
			return false, false, err
		}
	}
	err = assign(ctx, s, "settings/persist-"+name, "SET PERSIST "+name+" = ?", value)
	if static = conn.IsServerError(err, mysql.ErIncorrectGlobalLocalVar); !static {
		return restart, false, err
	}
	if changes {
		if err := due(); err != nil {
			return false, true, err
		}
	}
	return changes, true, assign(ctx, s, "settings/persist-only-"+name, "SET PERSIST_ONLY "+name+" = ?", value)
}

// startsAtOther says whether a server starts with another value of a variable than MySQL's default: my.cnf sets it, or mysqld works
// it out from the instance, its limits or other variables. Only a restart brings such a value back.
func startsAtOther(name string) bool {
	switch name {
	case "binlog_expire_logs_seconds", // my.cnf
		"innodb_buffer_pool_size", "innodb_redo_log_capacity", // innodb_dedicated_server
		"host_cache_size", "innodb_io_capacity_max", "innodb_log_writer_threads", "innodb_parallel_read_threads", "sql_big_selects",
		"table_definition_cache", "table_open_cache", "temptable_max_ram", "thread_cache_size":
		return true
	}
	return false
}

// dropSetting takes a persisted setting out. A dynamic one returns to its default at once, before it is taken out: should that
// fail in between, it is still there to be dropped again. Any other counts from the next restart on, which due is told before; so
// does one of the operator's own that somebody persisted by hand: its default may be what loses commits.
func dropSetting(ctx context.Context, s *conn.Session, name string, running bool, due func() error) (restart bool, err error) {
	restart = !running || startsAtOther(name) || settings.CountsFromRestart(name) || s.Options().Owned(name)
	if !restart {
		err := s.Change(ctx, "settings/default-"+name, "SET GLOBAL "+name+" = DEFAULT")
		if err != nil && conn.ServerErrorNumber(err) == 0 {
			return false, err
		}
		restart = err != nil // it is read-only, or has no default
	}
	if restart {
		if err := due(); err != nil {
			return false, err
		}
	}
	return restart, s.Change(ctx, "settings/reset-"+name, "RESET PERSIST IF EXISTS "+name)
}

// adjustment says why the server did not take a value that it has just persisted as another one; nil if it took it. A number within the
// variable's range is only rounded, to a size that the server can have, unless the server says nothing of that: then another variable
// limits it. Both are warnings, no errors.
func adjustment(ctx context.Context, s *conn.Session, name, value string) (why, err error) {
	var truncated, all []string
	err = s.Rows(ctx, "SHOW WARNINGS", nil, func(rows *sql.Rows) error {
		var level, text string
		var code int
		if err := rows.Scan(&level, &code, &text); err != nil {
			return err
		}
		all = append(all, strings.TrimSpace(text))
		if code == mysql.ErTruncatedWrongValue {
			truncated = append(truncated, strings.TrimSpace(text))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	after, err := readSettings(ctx, s, []string{name})
	if err != nil {
		return nil, err
	}
	persisted := after[name].persisted
	numbers := mysql.IsNumber(value) && mysql.IsNumber(persisted)
	inRange, _ := settings.InRange(name, value)
	switch {
	case len(truncated) > 0 && (!numbers || !inRange):
		return errors.New(strings.Join(truncated, "; ")), nil
	case len(truncated) > 0 || !numbers || mysql.EqualSetting(value, persisted):
		return nil, nil
	}
	return fmt.Errorf("MySQL takes %s: %w: %s", persisted, errLimited, strings.Join(all, "; ")), nil
}

// revertSetting restores a variable to what it was, persisted and, unless it is static and was not touched, present.
func revertSetting(ctx context.Context, s *conn.Session, name string, was setting, static bool) error {
	switch {
	case was.isPersisted && static:
		return assign(ctx, s, "settings/restore-"+name, "SET PERSIST_ONLY "+name+" = ?", was.persisted)
	case was.isPersisted:
		return assign(ctx, s, "settings/restore-"+name, "SET PERSIST "+name+" = ?", was.persisted)
	}
	if err := s.Change(ctx, "settings/unpersist-"+name, "RESET PERSIST IF EXISTS "+name); err != nil || static {
		return err
	}
	return assign(ctx, s, "settings/restore-"+name, "SET GLOBAL "+name+" = ?", was.current)
}

// marks is n placeholders.
func marks(n int) string {
	return strings.TrimSuffix(strings.Repeat("?,", n), ",")
}
