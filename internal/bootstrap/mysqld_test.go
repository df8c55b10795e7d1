package bootstrap

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alx-ke/nairobi-mysql-operator/internal/pki"
	"github.com/alx-ke/nairobi-mysql-operator/test/lab/rootfs"
)

//go:embed testdata/mysqld.sh
var mysqldScenario string

// enter changes, in mount, process and network namespaces of its own, into a copy-on-write view of the lab's instance
// image. What it mounts goes away with the namespaces.
const enter = `set -e
mount -t tmpfs -o size=2g tmpfs "$DIR"
mkdir "$DIR/upper" "$DIR/work" "$DIR/root"
mount -t overlay -o "lowerdir=$IMAGE,upperdir=$DIR/upper,workdir=$DIR/work" overlay "$DIR/root"
cd "$DIR/root"
mount -t proc proc proc
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount --rbind /dev dev
ip link set lo up
cp -r "$FILES" root/test
exec chroot . /bin/bash -c 'cd /root/test && exec bash mysqld.sh'`

// TestRealMySQLD lets the script's own functions initialise, start and take over a data directory with the mysqld of the
// lab's image, and looks at the result over SQL as the operator. It needs root, and builds the image where it is missing.
func TestRealMySQLD(t *testing.T) {
	image, err := rootfs.Ensure(t.Context(), "", t.Output(), rootfs.Instance)
	if err != nil {
		t.Fatal(err)
	}
	version, err := rootfs.MySQLVersion(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := pki.NewAuthority(testUID, "orders", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := authority.IssueOperator(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	in := testInput()
	in.Version = version
	in.CAPEM, in.JoinToken = authority.CertificatePEM(), authority.JoinToken(in.Member, in.Incarnation)
	in.IssuerDN, in.OperatorDN = authority.IssuerDN(), authority.OperatorDN()
	// As little memory as mysqld can do with: the machine is shared.
	in.Settings = map[string]string{
		"innodb_buffer_pool_size": "32M", "innodb_redo_log_capacity": "16M", "max_connections": "61",
		"sql_mode": "ANSI_QUOTES,STRICT_ALL_TABLES", "innodb_use_native_aio": "0",
		"time_zone":              "+02:00", // no option of mysqld's: it is set over SQL
		"lower_case_table_names": "1",
		"wait_timeou":            "7", // mysqld would take it for wait_timeout
	}
	got := runScenario(t, image, map[string][]byte{
		"user-data.sh": assemble(in), "mysqld.sh": []byte(mysqldScenario), "operator.pem": cert, "operator.key": key,
	})

	want := map[string]string{
		"configuration is valid":               "yes",
		"server_id":                            strconv.Itoa(int(ServerID(in.Ordinal, in.VolumeIncarnation))),
		"gtid_executed of a new server":        "",
		"super_read_only":                      "1",
		"max_connections of the launch":        "61",
		"sql_mode of the launch":               "ANSI_QUOTES,STRICT_ALL_TABLES",
		"time zone of the launch":              "SYSTEM",
		"time zones":                           "2026-01-01 09:00:00",
		"names of tables":                      "1",
		"plug-ins":                             "clone,rpl_semi_sync_replica,rpl_semi_sync_source",
		"semi-sync time-out":                   "4294967295",
		"CLONE's certificate":                  TLSDir + "/current.pem",
		"private key over SQL":                 "NULL",
		"request over SQL":                     "1",
		"instance id over SQL":                 testInstanceID,
		"disk over SQL":                        "1",
		"disk seen by the operator":            "yes",
		"exchange folder":                      "root mysql 1770",
		"certificate over SQL":                 "delivered",
		"root's files in the exchange":         "kept",
		"operator without certificate":         "denied",
		"root":                                 "denied",
		"MyISAM":                               "refused",
		"MEMORY":                               "refused",
		"MERGE":                                "refused",
		"InnoDB":                               "made",
		"general log over SQL":                 "1",
		"rotation 1":                           "1 root mysql 664 followed",
		"rotation 2":                           "1 root mysql 664 followed",
		"accounts under a password rule":       "usable",
		"start makes no transaction":           "yes",
		"adopted: server_uuid changed":         "yes",
		"adopted: gtid_executed kept":          "yes",
		"adopted: replication channels":        "0",
		"adopted: super_read_only":             "1",
		"events of the old server":             "77",
		"adopted: a link out of the directory": "refused",
		"adopted: other names of tables":       "refused",
		"adopted: time zones":                  "2026-01-01 09:00:00",
		"adopted: files":                       "0",
		"adopted: plug-ins":                    "0",
		"adopted: accounts":                    "friend@% 0 1,nairobi_operator@% 0 1,nairobi_replication@% 0 1",
		"adopted: roles and proxies":           "0",
		"adopted: events":                      "OFF 61",
		"bad persisted setting":                "undone",
		"persisted settings are in force":      "62",
		"bad setting of the launch":            "3 151 1",
		"bad setting over SQL":                 "NO_SUCH_MODE",
		"settings beside the bad one":          "4 63",
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: %q, want %q", name, got[name], value)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("not expected: %v", got)
	}
}

// runScenario runs mysqld.sh inside the image and returns what it found, from lines `CHECK name=value`.
func runScenario(t *testing.T, image string, files map[string][]byte) map[string]string {
	t.Helper()
	dir, mount := t.TempDir(), t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child",
		"--net", "bash", "-c", enter)
	cmd.Env = append(os.Environ(), "DIR="+mount, "IMAGE="+image, "FILES="+dir)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if check, ok := strings.CutPrefix(strings.TrimSpace(line), "CHECK "); ok {
			name, value, _ := strings.Cut(check, "=")
			found[name] = value
		}
	}
	return found
}
