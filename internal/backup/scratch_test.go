package backup

import (
	"context"
	sqldriver "database/sql"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/alx-ke/nairobi-mysql-operator/test/lab/mysqld"
)

// TestAThrowAwayServerIsSmall: a pod of 2 GiB verifies the dump of a cluster whose settings are for much larger instances, also while its
// server is initialised.
func TestAThrowAwayServerIsSmall(t *testing.T) {
	genuine, err := mysqld.HostPrograms(t.Context())
	must(t, err)
	dir := workshop(t)
	var runs [][]string
	initialised := int64(0)
	program := func(ctx context.Context, name string, arguments ...string) *exec.Cmd {
		if runs = append(runs, arguments); len(runs) == 2 {
			initialised = sizeBelow(t, dir)
		}
		return genuine(ctx, name, arguments...)
	}
	s, err := startScratch(t.Context(), dir, program, scratchOptions{
		creation: map[string]string{"lower_case_table_names": "1"},
		launch:   map[string]string{"innodb_buffer_pool_size": "8G", "innodb_redo_log_capacity": "1G", "sql_mode": "ANSI_QUOTES"},
	})
	must(t, err)
	defer func() { must(t, s.stop()) }()
	if initialised > 600<<20 {
		t.Errorf("initialised it takes %d MiB", initialised>>20)
	}
	for _, size := range []string{"--innodb-dedicated-server=OFF", "--innodb-buffer-pool-size=256M"} {
		for _, arguments := range runs {
			if !slices.Contains(arguments, size) {
				t.Errorf("%s is not among %q", size, arguments)
			}
		}
	}
	db, err := sqldriver.Open("mysql", scratchUser+"@unix("+s.socket+")/")
	must(t, err)
	defer db.Close()
	var found string
	must(t, db.QueryRowContext(t.Context(), "SELECT CONCAT_WS(' ', @@lower_case_table_names, @@GLOBAL.sql_mode, @@innodb_buffer_pool_size >> 20, @@innodb_redo_log_capacity >> 20)").Scan(&found))
	if want := "1 ANSI_QUOTES 256 256"; found != want {
		t.Errorf("it has %q, want %q", found, want)
	}
}

// sizeBelow returns the bytes that the files below a folder have together.
func sizeBelow(t *testing.T, dir string) (sum int64) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		sum += info.Size()
		return err
	}))
	return sum
}
